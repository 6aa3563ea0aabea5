# Sourced by tests/run: finds the servers; else installs the packages (root on Debian or Ubuntu); else uses Docker.

policy=/usr/sbin/policy-rc.d
policy_ours=

wants_mariadb() { [ -z "${REDRIVE_TEST_MARIADB_URL:-}" ]; }
wants_rabbitmq() { [ -z "${REDRIVE_TEST_AMQP_URL:-}" ] || [ -z "${REDRIVE_TEST_MANAGEMENT_URL:-}" ]; }

# Afterwards $mariadb_from and $rabbitmq_from say where each server comes from: given, host or docker.
obtain_servers() {
  mariadb_from=given rabbitmq_from=given
  if wants_mariadb; then mariadb_from=; elif ! url_answers "$REDRIVE_TEST_MARIADB_URL"; then
    die "REDRIVE_TEST_MARIADB_URL is set, but nothing answers there; unset it to start a private server"
  fi
  if wants_rabbitmq; then rabbitmq_from=; elif ! url_answers "$REDRIVE_TEST_AMQP_URL"; then
    die "REDRIVE_TEST_AMQP_URL is set, but nothing answers there; unset it to start a private server"
  fi
  find_servers && return
  if can_apt; then install_missing && find_servers && return; fi
  if docker info >/dev/null 2>&1; then
    mariadb_from=${mariadb_from:-docker} rabbitmq_from=${rabbitmq_from:-docker}
    return
  fi
  die "install MariaDB (mariadbd, mariadb-install-db, mariadb-admin) and RabbitMQ with its management plugin," \
    "or start Docker; then run this again"
}

find_servers() {
  if [ -z "$mariadb_from" ] && mariadb_find; then mariadb_from=host; fi
  if [ -z "$rabbitmq_from" ] && rabbitmq_find; then rabbitmq_from=host; fi
  [ -n "$mariadb_from" ] && [ -n "$rabbitmq_from" ]
}

# Like `command -v`, but looks where daemons lie as well, which is not in everybody's PATH.
program() { PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin command -v "$1"; }

can_apt() { [ "$(id -u)" -eq 0 ] && command -v apt-get dpkg >/dev/null; }

# Installs the packages of the servers that are missing. One run at a time; a second one finds the work done.
install_missing() {
  local packages=() before status=0
  exec 9>>"$cache/install.lock"
  if command -v flock >/dev/null; then flock 9; fi
  if find_servers; then exec 9>&-; return; fi
  if [ -z "$mariadb_from" ]; then packages+=(mariadb-server-core mariadb-client); fi
  if [ -z "$rabbitmq_from" ]; then packages+=(rabbitmq-server); fi
  before=$(package_daemons)
  policy_deny
  apt_install "${packages[@]}" || status=$?
  policy_restore
  stop_package_daemons "$before"
  exec 9>&-
  return "$status"
}

apt_install() {
  local log=$dir/apt.log
  local install=(apt-get -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install --no-install-recommends)
  say "installing $* (apt-get)"
  # The lists may be missing or too old, so a first failure is no failure yet.
  DEBIAN_FRONTEND=noninteractive "${install[@]}" "$@" </dev/null >"$log" 2>&1 9>&- && return
  apt-get -o DPkg::Lock::Timeout=300 update </dev/null >>"$log" 2>&1 9>&- || true
  DEBIAN_FRONTEND=noninteractive "${install[@]}" "$@" </dev/null >>"$log" 2>&1 9>&- && return
  tail -n 20 "$log" >&2
  say "apt-get could not install $*; its log is above"
  return 1
}

# Packages start their services when installed, unless this file forbids it. One that is already there is respected.
policy_deny() {
  [ ! -e "$policy" ] && [ ! -L "$policy" ] || return 0
  policy_ours=1
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
}

policy_restore() {
  if [ -n "$policy_ours" ]; then rm -f "$policy"; fi
  policy_ours=
}

# Pids of what the RabbitMQ package may start: a daemon epmd, a broker of the user rabbitmq.
package_daemons() {
  local process command
  for process in /proc/[0-9]*; do
    command=$(tr '\0' ' ' 2>/dev/null <"$process/cmdline") || continue
    case "$command" in
      *epmd\ *-daemon*) echo "${process#/proc/}" ;;
      *beam*-sname\ rabbit@* | *beam*-sname\ rabbit\ *) echo "${process#/proc/}" ;;
    esac
  done
}

# Stops the daemons that are not among $1, and keeps the service from starting at the next boot.
stop_package_daemons() {
  local pid
  if [ -z "$rabbitmq_from" ] && command -v systemctl >/dev/null; then
    systemctl --quiet disable rabbitmq-server.service epmd.service epmd.socket >/dev/null 2>&1 || true
  fi
  for pid in $(package_daemons); do
    case " ${1//$'\n'/ } " in *" $pid "*) ;; *) kill "$pid" 2>/dev/null || true ;; esac
  done
}
