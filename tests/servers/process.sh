# Sourced by tests/run: messages, directories, ports, and processes that are always stopped again.

dir=
data=
env_file_written=
command_group=     # process group of the command that runs against the servers
started=()         # "SIGNAL PID" of every server, in the order of their start
ports_taken=" "

say() { printf 'tests/run: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Sets $dir (logs, pid files, wrappers), $data (on /dev/shm where there is room: fsync is free there, so the servers
# keep their durable settings), $cache (what is worth keeping between runs), $as_user and $as_server (command prefixes).
make_directories() {
  local owner=
  trap stop_everything EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  dir=$(mktemp -d "${TMPDIR:-/tmp}/redrive-tests.XXXXXX")
  data=$dir/data
  if [ "$(free_megabytes /dev/shm)" -ge 2048 ]; then
    data=$(mktemp -d /dev/shm/redrive-tests.XXXXXX)
  else
    mkdir "$data"
  fi
  as_user=(env)
  cache=${XDG_CACHE_HOME:-${HOME:-$dir}/.cache}/redrive-tests
  if [ "$(id -u)" -eq 0 ]; then
    # Databases refuse to run as root, and nothing here needs it.
    command -v setpriv >/dev/null || die "running as root needs setpriv (package util-linux); or run as another user"
    owner=nobody:$(id -gn nobody)
    as_user=(setpriv --reuid=nobody "--regid=${owner#*:}" --clear-groups --)
    cache=/var/cache/redrive-tests
    chown "$owner" "$dir" "$data"
  fi
  # A server must not outlive this script even if the script is killed with -9. Only for processes that this shell
  # itself starts: the signal comes when the starting *thread* ends.
  as_server=("${as_user[@]}")
  if setpriv --pdeathsig KILL -- true 2>/dev/null; then
    as_server=(setpriv --pdeathsig KILL)
    if [ -n "$owner" ]; then as_server+=("${as_user[@]:1}"); else as_server+=(--); fi
  fi
  mkdir -p "$cache" 2>/dev/null || cache=$dir
  if [ -z "${REDRIVE_TEST_SERVERS:-}" ] || wants_mariadb || wants_rabbitmq; then export REDRIVE_TEST_SERVERS=$dir; fi
}

free_megabytes() {
  if [ -d "$1" ] && [ -w "$1" ]; then df -Pk "$1" | awk 'NR == 2 { print int($4 / 1024) }'; else echo 0; fi
}

# Sets $port to a port nobody listens on. Below the ephemeral range, so that no outgoing connection takes it before the
# server does.
free_port() {
  while :; do
    port=$((15000 + (RANDOM * 32768 + RANDOM) % 16000))
    case "$ports_taken" in *" $port "*) continue ;; esac
    if answers 127.0.0.1 "$port"; then continue; fi
    ports_taken="$ports_taken$port "
    return
  done
}

answers() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

# Succeeds if something listens at the host and port of a URL that came from outside.
url_answers() {
  local place=${1#*://}
  place=${place##*@}
  place=${place%%/*}
  answers "${place%:*}" "${place##*:}"
}

# server NAME SIGNAL COMMAND...: starts a server, output to $dir/NAME.log, pid to $dir/NAME.pid; SIGNAL
# stops it.
server() {
  local name=$1 signal=$2
  shift 2
  (cd "$dir" && exec "${as_server[@]}" "$@") </dev/null >>"$dir/$name.log" 2>&1 &
  started+=("$signal $!")
  echo "$!" >"$dir/$name.pid"
}

# kept_server NAME COMMAND...: the same for a server that tests may kill and start again (see control.sh). Killed with
# -9 when the run ends.
kept_server() {
  local name=$1 watched=()
  shift
  # The keeper dies with this shell, and the server with the keeper.
  if [ "${as_server[1]:-}" = --pdeathsig ]; then watched=(setpriv --pdeathsig KILL --); fi
  (cd "$dir" && exec ${watched[@]+"${watched[@]}"} bash "$top/tests/servers/keep.sh" "$name" "${as_server[@]}" "$@") </dev/null \
    >>"$dir/$name.log" 2>&1 &
  started+=("TERM $!")
  until [ -s "$dir/$name.pid" ]; do
    kill -0 "$!" 2>/dev/null || { show_log "$name"; die "$name could not be started; its log is above"; }
    sleep 0.02
  done
}

# write_program FILE FIRST COMMAND...: a program that runs FIRST and becomes COMMAND with its own arguments.
write_program() {
  local file=$1
  {
    printf '#!/usr/bin/env bash\n%s\nexec' "$2"
    shift 2
    printf ' %q' "$@"
    printf ' "$@"\n'
  } >"$file"
  chmod 755 "$file"
}

# Writes the program that kills and starts this run's servers.
write_control() {
  write_program "$dir/control" : bash "$top/tests/servers/control.sh" "$dir"
  export REDRIVE_TEST_CONTROL=$dir/control
}

# wait_until NAME CHECK...: polls CHECK for up to 60 s, as long as the server lives. On failure its log is shown.
wait_until() {
  local name=$1 deadline=$((SECONDS + 60)) failure=
  shift
  until "$@" >/dev/null 2>&1; do
    if ! is_alive "$name"; then failure="ended while it started"; fi
    if [ "$SECONDS" -ge "$deadline" ]; then failure="was not ready after 60 s"; fi
    if [ -n "$failure" ]; then
      show_log "$name"
      die "$name $failure; its log is above"
    fi
    sleep 0.1
  done
}

is_alive() {
  if [ -s "$dir/$1.container" ]; then
    [ "$(docker inspect --format '{{.State.Running}}' "$(cat "$dir/$1.container")")" = true ]
  else
    kill -0 "$(cat "$dir/$1.pid")" 2>/dev/null
  fi
}

show_log() {
  if [ -s "$dir/$1.container" ]; then
    docker logs --tail 60 "$(cat "$dir/$1.container")" >&2
  else
    tail -n 60 "$dir/$1.log" >&2
  fi
}

in_terminal_foreground() {
  local stat
  [ -t 0 ] || return 1
  # After "(name)": state, parent, group, session, terminal, foreground group of the terminal.
  read -r stat 2>/dev/null <"/proc/$$/stat" || return 0
  # shellcheck disable=SC2086
  set -- ${stat##*) }
  [ "$3" = "$6" ]
}

# Runs a command in a process group of its own, so that a signal to this script is acted on at once and ends the command
# with all its children. (A command that has the terminal is run plainly instead: the terminal's Ctrl-C reaches it.)
run_in_group() {
  local status=0
  set -m
  "$@" <&0 &
  command_group=$!
  set +m
  wait "$command_group" || status=$?
  command_group=
  return "$status"
}

stop_everything() {
  local status=$? i pid entry
  trap '' HUP INT TERM
  set +e
  if [ -n "$command_group" ]; then
    kill -TERM -- "-$command_group" 2>/dev/null
    wait_gone "$command_group" 15
    kill -KILL -- "-$command_group" 2>/dev/null
    wait "$command_group" 2>/dev/null
  fi
  for ((i = ${#started[@]} - 1; i >= 0; i--)); do
    pid=${started[i]#* }
    kill "-${started[i]% *}" "$pid"
    wait_gone "$pid" 10 || kill -KILL "$pid"
    wait "$pid"
  done 2>/dev/null # the shell reports each killed child
  policy_restore
  if [ -n "$env_file_written" ]; then rm -f "$env_file_written"; fi
  if [ -n "$dir" ]; then
    for entry in "$dir"/*.container; do
      if [ -s "$entry" ]; then docker rm --force --volumes "$(cat "$entry")" >/dev/null; fi
    done
    # A killed broker's helpers may still write for a moment.
    rm -rf "$dir" "$data" 2>/dev/null || { sleep 0.5; rm -rf "$dir" "$data"; }
  fi
  exit "$status"
}

# Waits until the child PID has ended, SECONDS at most.
wait_gone() {
  local left=$(($2 * 20))
  while kill -0 "$1" 2>/dev/null; do
    [ $((left -= 1)) -gt 0 ] || return 1
    sleep 0.05
  done
}
