# Sourced by tests/run: a real MySQL, if REDRIVE_TEST_WITH_MYSQL=1 asks for it. Debian carries MySQL in its unstable
# suite only, so its packages are unpacked into a directory of their own, with all they depend on, and run from there
# with their own C library: the system, its package database and its libraries stay as they are. Unstable moves and is
# broken on some days; therefore this leg is extra, and says so when it is missing.

mysql_start_if_wanted() {
  [ "${REDRIVE_TEST_WITH_MYSQL:-}" = 1 ] && [ -z "${REDRIVE_TEST_MYSQL_URL:-}" ] || return 0
  mysql_root=$cache/mysql
  if [ ! -e "$mysql_root/complete" ]; then say "fetching MySQL (65 MB, once)"; fi
  if [ ! -e "$mysql_root/complete" ] && ! mysql_unpack >"$dir/mysql-unpack.log" 2>&1; then
    tail -n 5 "$dir/mysql-unpack.log" >&2
    say "NO MYSQL: it could not be fetched (see above). REDRIVE_TEST_MYSQL_URL stays unset."
    return 0
  fi
  mysql_lib=$(echo "$mysql_root"/usr/lib/*-linux-gnu*)
  mysql_loader=$(echo "$mysql_lib"/ld-linux*.so.*)
  mysql_start
}

# Not under `set -e` (its caller tests it), hence the chains.
mysql_unpack() {
  local apt=$dir/apt new="$mysql_root.$$" uri package
  command -v apt-get dpkg-deb || return
  uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | grep -v security | head -n 1)
  [ -n "$uri" ] &&
    mkdir -p "$apt"/{sources,preferences,state/lists/partial,cache/archives/partial} && : >"$apt/status" &&
    printf 'Types: deb\nURIs: %s\nSuites: sid\nComponents: main\nSigned-By: %s\n' \
      "$uri" /usr/share/keyrings/debian-archive-keyring.gpg >"$apt/sources/sid.sources" || return
  cat >"$apt/apt.conf" <<CONF
Dir::Etc::sourcelist "/dev/null"; Dir::Etc::sourceparts "$apt/sources"; Dir::Etc::preferencesparts "$apt/preferences";
Dir::State "$apt/state"; Dir::State::status "$apt/status"; Dir::Cache "$apt/cache";
Acquire::Languages "none"; APT::Sandbox::User "root";
CONF
  APT_CONFIG=$apt/apt.conf apt-get -q update &&
    APT_CONFIG=$apt/apt.conf apt-get -q -y --download-only --no-install-recommends install \
      mysql-server-core mysql-client-core || return
  rm -rf "$new" && mkdir -p "$new"/usr/{bin,sbin,lib,lib64} || return
  for package in bin sbin lib lib64; do ln -s "usr/$package" "$new/$package"; done
  for package in "$apt"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$new" --keep-directory-symlink --no-same-owner \
      --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' || return
  done
  : >"$new/complete" && rm -rf "$mysql_root" && mv "$new" "$mysql_root"
}

mysql_program() {
  local program=$1
  shift
  "$mysql_loader" --library-path "$mysql_lib" "$mysql_root/usr/$program" "$@"
}

mysql_start() {
  local here=$data/mysql options
  # What is compiled in points into the real /usr and /var.
  options=(--no-defaults "--datadir=$here/data" "--basedir=$mysql_root/usr" "--lc-messages-dir=$mysql_root/usr/share/mysql"
    "--character-sets-dir=$mysql_root/usr/share/mysql/charsets" "--plugin-dir=$mysql_root/usr/lib/mysql/plugin"
    --secure-file-priv=NULL)
  "${as_user[@]}" mkdir -p "$here/tmp"
  mysqld=("$mysql_loader" --library-path "$mysql_lib" "$mysql_root/usr/sbin/mysqld" "${options[@]}")
  if ! (cd "$dir" && "${as_user[@]}" "${mysqld[@]}" --initialize-insecure) </dev/null >"$dir/mysql-install.log" 2>&1; then
    tail -n 20 "$dir/mysql-install.log" >&2
    say "NO MYSQL: its data directory could not be made (see above). REDRIVE_TEST_MYSQL_URL stays unset."
    return 0
  fi
  mariadb_users 127.0.0.1 >"$dir/mysql-users.sql"
  free_port
  # flush=2: see mariadb.sh.
  server mysql TERM "${mysqld[@]}" "--socket=$here/s" "--pid-file=$here/pid" "--tmpdir=$here/tmp" --bind-address=127.0.0.1 \
    "--port=$port" --mysqlx=OFF "--init-file=$dir/mysql-users.sql" --skip-name-resolve --default-time-zone=+00:00 \
    --max-connections=500 --innodb-flush-log-at-trx-commit=2 --skip-log-bin --performance-schema=OFF
  # In a subshell, so that a MySQL that does not start ends this leg only.
  if ! (wait_until mysql mysql_program bin/mysqladmin --no-defaults --connect-timeout=5 -h127.0.0.1 "-P$port" -ut -ppw ping); then
    say "NO MYSQL: it did not start (see above). REDRIVE_TEST_MYSQL_URL stays unset."
    return 0
  fi
  export REDRIVE_TEST_MYSQL_URL=mysql://t:pw@127.0.0.1:$port
}
