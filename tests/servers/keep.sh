#!/usr/bin/env bash
# keep.sh NAME COMMAND...: runs a server that may be killed. Output to NAME.log, its pid to NAME.pid, all in the present
# directory. When the server has ended it is started again for each line that comes in NAME.start, and not before: what
# a test has killed stays dead until the test says so. A TERM ends the server (kill -9) and this keeper.
#
# The keeper stays the server's parent, so that the server ends with it, however the run ends.
set -u
name=$1
shift
child=
trap 'kill -KILL "$child" 2>/dev/null; wait "$child" 2>/dev/null; exit 0' TERM INT HUP
rm -f "$name.start"
mkfifo "$name.start"
exec 7<>"$name.start" # for reading and writing: opening it never waits
while :; do
  "$@" </dev/null >>"$name.log" 2>&1 7>&- &
  child=$!
  echo "$child" >"$name.pid.new"
  mv "$name.pid.new" "$name.pid"
  wait "$child"
  child=
  read -r _ <&7
done
