# Sourced by tests/run: a private MariaDB.

mariadb_sql_mode=ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE
mariadb_sql_mode+=,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,TIME_ROUND_FRACTIONAL
# The defaults of MySQL 8 where MariaDB's differ, so that one set of expectations holds for both.
mariadb_options=(
  --skip-name-resolve --max-connections=500 --default-time-zone=+00:00
  --character-set-server=utf8mb4 --collation-server=utf8mb4_unicode_520_ci
  --innodb-autoinc-lock-mode=2 --innodb-buffer-pool-size=256M "--sql-mode=$mariadb_sql_mode"
)

mariadb_find() {
  mariadbd=$(program mariadbd) && mariadb_install_db=$(program mariadb-install-db) && mariadb_admin=$(program mariadb-admin)
}

mariadb_start() {
  if [ "$mariadb_from" = docker ]; then mariadb_start_docker; else mariadb_start_host; fi
}

mariadb_start_host() {
  local here=$data/mariadb flush=1
  # 1 waits for the disk at each commit, which costs nothing in memory. 2 leaves that out and still keeps every
  # acknowledged commit when the process is killed (0 would lose some).
  if [ "$data" = "$dir/data" ]; then flush=2; fi
  "${as_user[@]}" mkdir -p "$here/tmp"
  if ! (cd "$dir" && "${as_user[@]}" "$mariadb_install_db" --no-defaults "--datadir=$here/data" --skip-test-db \
    --auth-root-authentication-method=normal --innodb-log-file-size=64M) </dev/null >"$dir/mariadb-install.log" 2>&1; then
    tail -n 40 "$dir/mariadb-install.log" >&2
    die "mariadb-install-db failed; its log is above"
  fi
  mariadb_users 127.0.0.1 >"$dir/mariadb-users.sql"
  free_port
  mariadb_port=$port
  local tls=()
  if wants_tls; then tls=("--ssl-ca=$dir/tls/ca.pem" "--ssl-cert=$dir/tls/server.pem" "--ssl-key=$dir/tls/server-key.pem"); fi
  write_program "$dir/mariadb.ready" : "$mariadb_admin" --no-defaults --connect-timeout=5 -h127.0.0.1 "-P$port" -ut -ppw ping
  echo "mysql://t:pw@127.0.0.1:$port" >"$dir/mariadb.url"
  kept_server mariadb "$mariadbd" --no-defaults "--datadir=$here/data" "--tmpdir=$here/tmp" "--socket=$here/s" \
    "--pid-file=$here/pid" --bind-address=127.0.0.1 "--port=$port" "--init-file=$dir/mariadb-users.sql" \
    --innodb-log-file-size=64M "--innodb-flush-log-at-trx-commit=$flush" "${mariadb_options[@]}" ${tls[@]+"${tls[@]}"}
}

mariadb_start_docker() {
  say "starting MariaDB with Docker"
  docker run --detach --cidfile "$dir/mariadb.container" --publish 127.0.0.1::3306 --tmpfs /var/lib/mysql \
    --env MARIADB_ROOT_PASSWORD=pw mariadb "${mariadb_options[@]}" >/dev/null
  mariadb_container=$(cat "$dir/mariadb.container")
}

# The user of the tests; it makes databases and, for tests of rights, other users.
mariadb_users() {
  printf "CREATE USER IF NOT EXISTS t@'%s' IDENTIFIED BY 'pw';\nGRANT ALL ON *.* TO t@'%s' WITH GRANT OPTION;\n" "$1" "$1"
}

mariadb_wait() {
  if [ "$mariadb_from" = docker ]; then
    # Over TCP: while the image prepares itself, its server listens on a socket only.
    wait_until mariadb docker exec "$mariadb_container" mariadb-admin -h127.0.0.1 -uroot -ppw ping
    mariadb_users % | docker exec --interactive "$mariadb_container" mariadb -h127.0.0.1 -uroot -ppw
    mariadb_port=$(docker port "$mariadb_container" 3306/tcp | sed -n '1s/.*://p')
  else
    wait_until mariadb "$dir/mariadb.ready"
  fi
  export REDRIVE_TEST_MARIADB_URL=mysql://t:pw@127.0.0.1:$mariadb_port
}
