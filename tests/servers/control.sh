#!/usr/bin/env bash
# Kills and starts the servers of one run of tests/run, by their pids. $REDRIVE_TEST_CONTROL is this program, bound to
# its run; anything may call it.
#
#   list              the servers' names: mariadb, rabbitmq-1, and in a cluster rabbitmq-2, …
#   pid NAME          the server's process
#   kill NAME...      kill -9; returns when all are gone
#   start NAME...     the same again, on the same data and ports; returns when all are ready
#   ctl NAME ARGS...  rabbitmqctl of that node
#   url NAME          where clients reach it: mysql://… or amqp://…
#   management NAME   where the management API of that node is
set -euo pipefail
dir=$1
verb=${2:-}
shift 2 || true
cd "$dir"

fail() { printf 'control: %s\n' "$*" >&2; exit 1; }
is_running() { kill -0 "$(cat "$1.pid")" 2>/dev/null; }
must_exist() { [ -e "$1.ready" ] || fail "there is no server $1; there are: $(list)"; }
list() { for ready in *.ready; do echo "${ready%.ready}"; done; }

start_one() {
  local name=$1 old
  must_exist "$name"
  ! is_running "$name" || fail "$name is running"
  old=$(cat "$name.pid")
  exec 7<>"$name.start"
  echo start >&7
  exec 7>&-
  until [ "$(cat "$name.pid")" != "$old" ]; do
    [ "$SECONDS" -lt 120 ] || fail "$name: its keeper does not answer"
    sleep 0.02
  done
}

wait_ready() {
  until "./$1.ready" >/dev/null 2>&1; do
    if ! is_running "$1"; then tail -n 40 "$1.log" >&2; fail "$1 ended while it started; its log is above"; fi
    if [ "$SECONDS" -ge 120 ]; then tail -n 40 "$1.log" >&2; fail "$1 was not ready after 120 s; its log is above"; fi
    sleep 0.05
  done
}

case "$verb" in
  list) list ;;
  pid) must_exist "$1"; cat "$1.pid" ;;
  kill)
    for name in "$@"; do must_exist "$name"; kill -KILL "$(cat "$name.pid")" 2>/dev/null || fail "$name is not running"; done
    for name in "$@"; do while is_running "$name"; do sleep 0.02; done; done
    ;;
  start)
    for name in "$@"; do start_one "$name"; done
    for name in "$@"; do wait_ready "$name"; done
    ;;
  ctl) must_exist "$1"; name=$1; shift; exec "./$name.ctl" "$@" ;;
  url | management) must_exist "$1"; cat "$1.$verb" ;;
  *) sed -n '/^#!/d; /^#/!q; s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 1 ;;
esac
