# Sourced by tests/run: private RabbitMQ nodes with their management plugin.

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

# The nodes' names are rabbitmq-1, …: one, or as many as REDRIVE_TEST_CLUSTER says.
rabbitmq_names() { local n; for ((n = 1; n <= ${REDRIVE_TEST_CLUSTER:-1}; n++)); do echo "rabbitmq-$n"; done; }

rabbitmq_start_host() {
  local name cookie
  free_port; rabbitmq_epmd_port=$port
  cookie=$(od -An -tx1 -N24 /dev/urandom | tr -d ' \n')
  echo '[rabbitmq_management,rabbitmq_shovel,rabbitmq_shovel_management].' >"$dir/enabled_plugins"
  # epmd in the foreground: otherwise the broker starts one that stays behind. Started first, stopped after the brokers.
  server epmd KILL "$rabbitmq_epmd" -port "$rabbitmq_epmd_port" -address 127.0.0.1
  # All at once: nodes of a new cluster wait for each other.
  for name in $(rabbitmq_names); do rabbitmq_start_node "$name" "$cookie"; done
}

rabbitmq_start_node() {
  local name=$1 here=$data/$1 dist_port amqp_port management_port environment
  "${as_user[@]}" mkdir -p "$here/home" "$here/mnesia"
  free_port; dist_port=$port
  free_port; amqp_port=$port
  free_port; management_port=$port
  rabbitmq_write_conf "$name" "$amqp_port" "$management_port" >"$dir/$name.conf"
  # Written by the user of the server: Erlang refuses a cookie that others can read.
  printf %s "$2" | "${as_user[@]}" sh -c 'umask 077; cat >"$1"; chmod 400 "$1"' sh "$here/home/.erlang.cookie"
  # Everything on 127.0.0.1. RUNNING_UNDER_SYSTEMD makes the start script become the broker (exec), so that the pid we
  # know is the broker's own.
  environment=(
    env -i "PATH=$PATH" LANG=C.UTF-8 "HOME=$here/home" "ERL_EPMD_PORT=$rabbitmq_epmd_port" ERL_EPMD_ADDRESS=127.0.0.1
    "RABBITMQ_NODENAME=$name@localhost" RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 "RABBITMQ_NODE_PORT=$amqp_port"
    "RABBITMQ_DIST_PORT=$dist_port" "RABBITMQ_MNESIA_BASE=$here/mnesia" "RABBITMQ_GENERATED_CONFIG_DIR=$here/config"
    "RABBITMQ_LOG_BASE=$here" RABBITMQ_LOGS=- "RABBITMQ_PID_FILE=$here/pid" RABBITMQ_CONF_ENV_FILE=/dev/null
    "RABBITMQ_CONFIG_FILE=$dir/$name.conf" "RABBITMQ_ENABLED_PLUGINS_FILE=$dir/enabled_plugins"
    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} -rabbit quorum_tick_interval 500"
    "RABBITMQ_CTL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}" RUNNING_UNDER_SYSTEMD=true
  )
  write_program "$dir/$name.ctl" "cd $(printf %q "$dir")" "${as_user[@]}" "${environment[@]}" "$rabbitmq_sbin/rabbitmqctl"
  printf '#!/usr/bin/env bash\n%s\nrabbitmq_is_ready %s %s\n' "$(declare -f rabbitmq_is_ready)" "$management_port" \
    "$amqp_port" >"$dir/$name.ready"
  chmod 755 "$dir/$name.ready"
  echo "amqp://t:pw@127.0.0.1:$amqp_port/%2f" >"$dir/$name.url"
  echo "http://t:pw@127.0.0.1:$management_port" >"$dir/$name.management"
  kept_server "$name" "${environment[@]}" "$rabbitmq_sbin/rabbitmq-server"
}

rabbitmq_write_conf() {
  local name=$1 amqp_port=$2 management_port=$3 other n=0
  # Statistics each second instead of each five, here and in quorum_tick_interval (milliseconds) above: the tests wait
  # for figures of the management API. Collected as often as kept, as it is by default: collected each half second and
  # kept each second, every rate reads 0 for a part of each second.
  cat <<CONF
listeners.tcp.1 = 127.0.0.1:$amqp_port
management.tcp.ip = 127.0.0.1
management.tcp.port = $management_port
default_user = t
default_pass = pw
vm_memory_high_watermark.absolute = 512MiB
disk_free_limit.absolute = 50MB
collect_statistics_interval = 1000
management.sample_retention_policies.global.minute = 1
management.sample_retention_policies.basic.minute = 1
management.sample_retention_policies.detailed.minute = 1
CONF
  if [ "${REDRIVE_TEST_CLUSTER:-1}" -gt 1 ]; then
    echo 'cluster_formation.peer_discovery_backend = classic_config'
    for other in $(rabbitmq_names); do echo "cluster_formation.classic_config.nodes.$((n += 1)) = $other@localhost"; done
  fi
  if wants_tls; then rabbitmq_write_tls_conf "$name"; fi
  if [ -n "${REDRIVE_TEST_RABBITMQ_CONF:-}" ]; then printf '%s\n' "$REDRIVE_TEST_RABBITMQ_CONF"; fi
}

rabbitmq_write_tls_conf() {
  local prefix
  free_port
  echo "listeners.ssl.1 = 127.0.0.1:$port"
  echo "amqps://t:pw@localhost:$port/%2f" >"$dir/$1.amqps"
  free_port
  printf 'management.ssl.ip = 127.0.0.1\nmanagement.ssl.port = %s\n' "$port"
  echo "https://t:pw@localhost:$port" >"$dir/$1.https"
  for prefix in ssl_options management.ssl; do
    printf "$prefix.%s = $dir/tls/%s\n" cacertfile ca.pem certfile server.pem keyfile server-key.pem
  done
}

rabbitmq_start_docker() {
  [ "${REDRIVE_TEST_CLUSTER:-1}$(wants_tls && echo tls)${REDRIVE_TEST_RABBITMQ_CONF:-}" = 1 ] ||
    die "a cluster, TLS or other settings of RabbitMQ need it installed: with Docker there is one plain node"
  say "starting RabbitMQ with Docker"
  docker run --detach --cidfile "$dir/rabbitmq-1.container" --publish 127.0.0.1::5672 --publish 127.0.0.1::15672 \
    --env RABBITMQ_DEFAULT_USER=t --env RABBITMQ_DEFAULT_PASS=pw rabbitmq:management >/dev/null
  rabbitmq_container=$(cat "$dir/rabbitmq-1.container")
  rabbitmq_amqp_port=$(docker port "$rabbitmq_container" 5672/tcp | sed -n '1s/.*://p')
  rabbitmq_management_port=$(docker port "$rabbitmq_container" 15672/tcp | sed -n '1s/.*://p')
  write_program "$dir/rabbitmq-1.ctl" : docker exec "$rabbitmq_container" rabbitmqctl
}

rabbitmq_wait() {
  local name
  if [ "$rabbitmq_from" = docker ]; then
    wait_until rabbitmq-1 rabbitmq_is_ready "$rabbitmq_management_port" 5672
    echo "amqp://t:pw@127.0.0.1:$rabbitmq_amqp_port/%2f" >"$dir/rabbitmq-1.url"
    echo "http://t:pw@127.0.0.1:$rabbitmq_management_port" >"$dir/rabbitmq-1.management"
  else
    for name in $(rabbitmq_names); do wait_until "$name" "$dir/$name.ready"; done
    if [ "${REDRIVE_TEST_CLUSTER:-1}" -gt 1 ]; then
      "$dir/rabbitmq-1.ctl" --quiet await_online_nodes "$REDRIVE_TEST_CLUSTER" ||
        die "the nodes did not become a cluster of $REDRIVE_TEST_CLUSTER"
    fi
    if wants_tls; then
      REDRIVE_TEST_AMQPS_URL=$(cat "$dir/rabbitmq-1.amqps")
      REDRIVE_TEST_HTTPS_URL=$(cat "$dir/rabbitmq-1.https")
      export REDRIVE_TEST_AMQPS_URL REDRIVE_TEST_HTTPS_URL
    fi
  fi
  REDRIVE_TEST_AMQP_URL=$(cat "$dir/rabbitmq-1.url")
  REDRIVE_TEST_MANAGEMENT_URL=$(cat "$dir/rabbitmq-1.management")
  export REDRIVE_TEST_AMQP_URL REDRIVE_TEST_MANAGEMENT_URL REDRIVE_TEST_RABBITMQ_CTL=$dir/rabbitmq-1.ctl
}

# Both the management API, at the port $1, and the AMQP listener $2, as the broker itself sees it.
rabbitmq_is_ready() {
  local line
  exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
  # dDpwdw== is t:pw
  printf 'GET /api/health/checks/port-listener/%s HTTP/1.0\r\nAuthorization: Basic dDpwdw==\r\n\r\n' "$2" >&3
  IFS= read -r -t 5 line <&3 || line=
  exec 3>&-
  case "$line" in *' 200 '*) return 0 ;; *) return 1 ;; esac
}
