# Sourced by tests/run: a private RabbitMQ node with its management plugin.

rabbitmq_find() {
  local folder
  # The distribution's programs in /usr/sbin change to another user and directory, so they come last.
  for folder in /usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin /opt/homebrew/opt/rabbitmq/sbin /usr/local/opt/rabbitmq/sbin \
    "$(dirname "$(program rabbitmq-server || echo .)")"; do
    if [ -x "$folder/rabbitmq-server" ] && [ -x "$folder/rabbitmqctl" ]; then rabbitmq_sbin=$folder; fi
    if [ -n "${rabbitmq_sbin:-}" ]; then break; fi
  done
  [ -n "${rabbitmq_sbin:-}" ] || return 1
  rabbitmq_epmd=$(program epmd) && return
  for rabbitmq_epmd in /usr/lib/erlang/erts-*/bin/epmd /usr/lib64/erlang/erts-*/bin/epmd; do
    if [ -x "$rabbitmq_epmd" ]; then return; fi
  done
  return 1
}

rabbitmq_start() {
  if [ "$rabbitmq_from" = docker ]; then rabbitmq_start_docker; else rabbitmq_start_host; fi
}

rabbitmq_start_host() {
  local here=$data/rabbitmq epmd_port dist_port rabbitmq_env
  "${as_user[@]}" mkdir -p "$here/home" "$here/mnesia"
  free_port; epmd_port=$port
  free_port; dist_port=$port
  free_port; rabbitmq_amqp_port=$port
  free_port; rabbitmq_management_port=$port
  # Statistics each second instead of each five, here and in quorum_tick_interval (milliseconds) below: the tests wait
  # for figures of the management API.
  cat >"$dir/rabbitmq.conf" <<CONF
listeners.tcp.1 = 127.0.0.1:$rabbitmq_amqp_port
management.tcp.ip = 127.0.0.1
management.tcp.port = $rabbitmq_management_port
default_user = t
default_pass = pw
vm_memory_high_watermark.absolute = 512MiB
disk_free_limit.absolute = 50MB
collect_statistics_interval = 500
management.sample_retention_policies.global.minute = 1
management.sample_retention_policies.basic.minute = 1
management.sample_retention_policies.detailed.minute = 1
CONF
  echo '[rabbitmq_management,rabbitmq_shovel,rabbitmq_shovel_management].' >"$dir/enabled_plugins"
  # Written by the user of the server: Erlang refuses a cookie that others can read.
  od -An -tx1 -N24 /dev/urandom | tr -d ' \n' |
    "${as_user[@]}" sh -c 'umask 077; cat >"$1"; chmod 400 "$1"' sh "$here/home/.erlang.cookie"
  # Everything on 127.0.0.1. RUNNING_UNDER_SYSTEMD makes the start script become the broker (exec), so that the pid we
  # know is the broker's own.
  rabbitmq_env=(
    env -i "PATH=$PATH" LANG=C.UTF-8 "HOME=$here/home" "ERL_EPMD_PORT=$epmd_port" ERL_EPMD_ADDRESS=127.0.0.1
    RABBITMQ_NODENAME=redrive@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 "RABBITMQ_NODE_PORT=$rabbitmq_amqp_port"
    "RABBITMQ_DIST_PORT=$dist_port" "RABBITMQ_MNESIA_BASE=$here/mnesia" "RABBITMQ_GENERATED_CONFIG_DIR=$here/config"
    "RABBITMQ_LOG_BASE=$here" RABBITMQ_LOGS=- "RABBITMQ_PID_FILE=$here/pid" RABBITMQ_CONF_ENV_FILE=/dev/null
    "RABBITMQ_CONFIG_FILE=$dir/rabbitmq.conf" "RABBITMQ_ENABLED_PLUGINS_FILE=$dir/enabled_plugins"
    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} -rabbit quorum_tick_interval 500"
    "RABBITMQ_CTL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}" RUNNING_UNDER_SYSTEMD=true
  )
  rabbitmq_write_ctl "cd $(printf %q "$dir")" "${as_user[@]}" "${rabbitmq_env[@]}" "$rabbitmq_sbin/rabbitmqctl"
  # epmd in the foreground: otherwise the broker starts one that stays behind. Started first, stopped after the broker.
  server epmd KILL "$rabbitmq_epmd" -port "$epmd_port" -address 127.0.0.1
  server rabbitmq KILL "${rabbitmq_env[@]}" "$rabbitmq_sbin/rabbitmq-server"
  rabbitmq_listener=$rabbitmq_amqp_port
}

rabbitmq_start_docker() {
  say "starting RabbitMQ with Docker"
  docker run --detach --cidfile "$dir/rabbitmq.container" --publish 127.0.0.1::5672 --publish 127.0.0.1::15672 \
    --env RABBITMQ_DEFAULT_USER=t --env RABBITMQ_DEFAULT_PASS=pw rabbitmq:management >/dev/null
  rabbitmq_container=$(cat "$dir/rabbitmq.container")
  rabbitmq_amqp_port=$(docker port "$rabbitmq_container" 5672/tcp | sed -n '1s/.*://p')
  rabbitmq_management_port=$(docker port "$rabbitmq_container" 15672/tcp | sed -n '1s/.*://p')
  rabbitmq_listener=5672
  rabbitmq_write_ctl : docker exec "$rabbitmq_container" rabbitmqctl
}

# rabbitmq_write_ctl FIRST COMMAND...: a program that runs FIRST and becomes COMMAND with its own arguments.
rabbitmq_write_ctl() {
  {
    printf '#!/usr/bin/env bash\n%s\nexec' "$1"
    shift
    printf ' %q' "$@"
    printf ' "$@"\n'
  } >"$dir/rabbitmqctl"
  chmod 755 "$dir/rabbitmqctl"
}

rabbitmq_wait() {
  wait_until rabbitmq rabbitmq_is_ready
  export REDRIVE_TEST_AMQP_URL=amqp://t:pw@127.0.0.1:$rabbitmq_amqp_port/%2f
  export REDRIVE_TEST_MANAGEMENT_URL=http://t:pw@127.0.0.1:$rabbitmq_management_port
  export REDRIVE_TEST_RABBITMQ_CTL=$dir/rabbitmqctl
}

# Both the management API and the AMQP listener, as the broker itself sees it.
rabbitmq_is_ready() (
  exec 3<>"/dev/tcp/127.0.0.1/$rabbitmq_management_port"
  # dDpwdw== is t:pw
  printf 'GET /api/health/checks/port-listener/%s HTTP/1.0\r\nAuthorization: Basic dDpwdw==\r\n\r\n' "$rabbitmq_listener" >&3
  IFS= read -r -t 5 line <&3
  case "$line" in *' 200 '*) exit 0 ;; *) exit 1 ;; esac
)
