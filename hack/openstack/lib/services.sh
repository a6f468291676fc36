# What runs, and in which order.

bin=$state/root/usr/bin

start_infrastructure() {
  local db=$run/db name
  if [ ! -d "$db/mysql/mysql" ]; then
    rm -rf "$db/mysql"
    mariadb-install-db --no-defaults --user=root --datadir="$db/mysql" --auth-root-authentication-method=normal \
      --skip-test-db > "$run/log/mariadb-install.out" 2>&1 || died mariadb-install
  fi
  # Nothing here has to survive a power cut.
  spawn mariadb mariadbd --no-defaults --user=root --datadir="$db/mysql" --socket="$run/mysql.sock" --pid-file="$run/mysql.pid" \
    --bind-address=127.0.0.1 --port=3306 --skip-name-resolve --max-connections=1500 --skip-log-bin --sync-frm=0 \
    --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --innodb-buffer-pool-size=512M --innodb-flush-method=nosync \
    --character-set-server=utf8mb3
  spawn memcached memcached -u root -l 127.0.0.1 -p 11211 -m 64
  # RabbitMQ would start an epmd that nobody stops: it gets one of ours, on a port of its own.
  export ERL_EPMD_PORT=14369 ERL_EPMD_ADDRESS=127.0.0.1
  spawn epmd epmd
  await 20 epmd listens 14369
  spawn rabbitmq env RABBITMQ_NODENAME=isthmus@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT=5672 RABBITMQ_DIST_PORT=25672 \
    RABBITMQ_MNESIA_BASE="$run/rabbitmq" RABBITMQ_LOG_BASE="$run/log" RABBITMQ_CONFIG_FILE="$run/etc/rabbitmq" \
    RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_ENABLED_PLUGINS_FILE="$run/etc/rabbitmq-plugins" RABBITMQ_PID_FILE="$run/rabbitmq.pid" \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}' /usr/lib/rabbitmq/bin/rabbitmq-server
  await 60 mariadb sql 'select 1'
  for name in keystone nova_api nova nova_cell0 placement glance neutron octavia cinder barbican; do
    echo "create database if not exists $name character set utf8mb3;"
  done | sql
  sql "create user if not exists os@'127.0.0.1' identified by '$password'; grant all on *.* to os@'127.0.0.1'; flush privileges;"
  await 90 rabbitmq listens 5672
}

sql() { mariadb --no-defaults -uroot -S "$run/mysql.sock" ${1:+-e "$1"} > /dev/null 2>> "$run/log/sql.out"; }

# once NAME FUNCTION: runs it unless it has succeeded on these databases before.
once() {
  local log=$run/log/$2.out
  [ ! -e "$run/db/done/$1" ] || return 0
  "$2" > "$log" 2>&1 || { tail -n 15 "$log" >&2; die "setting up $1 failed: see above and $log"; }
  touch "$run/db/done/$1"
}

schema_keystone() {
  local url=http://127.0.0.1:5000/v3
  set -- keystone-manage --config-file "$run/etc/keystone/keystone.conf"
  "$@" db_sync &&
    "$@" fernet_setup --keystone-user root --keystone-group root &&
    "$@" credential_setup --keystone-user root --keystone-group root &&
    "$@" bootstrap --bootstrap-password "$password" --bootstrap-admin-url $url --bootstrap-internal-url $url --bootstrap-public-url $url --bootstrap-region-id RegionOne
}
schema_nova() {
  set -- "$bin/nova-manage" --config-file "$run/etc/nova/nova.conf"
  "$@" api_db sync &&
    "$@" cell_v2 map_cell0 --database_connection "mysql+pymysql://os:$password@127.0.0.1:3306/nova_cell0" &&
    { "$@" cell_v2 create_cell --name=cell1 || [ $? = 2 ]; } && # 2: it exists
    "$@" db sync
}
schema_placement() { placement-manage --config-dir "$run/etc/placement" db sync; }
schema_glance() { "$bin/glance-manage" --config-file "$run/etc/glance/glance.conf" db_sync; }
schema_neutron() { "$bin/neutron-db-manage" --config-file "$run/etc/neutron/neutron.conf" upgrade heads; }
schema_octavia() { octavia-db-manage --config-file "$run/etc/octavia/api.conf" upgrade head; }
schema_cinder() { "$bin/cinder-manage" --config-file "$run/etc/cinder/cinder.conf" db sync; }
schema_barbican() { "$bin/barbican-manage" db upgrade; }

make_schemas() { # two at a time: more would not be faster on two cores
  local other name
  (once nova schema_nova) & other=$!
  for name in keystone neutron octavia cinder placement glance barbican; do once $name "schema_$name"; done
  wait "$other" || exit 1 # it has said why
}

start_ovn() {
  local dir=$run/ovn db
  for db in nb sb; do [ -e "$dir/$db.db" ] || ovsdb-tool create "$dir/$db.db" "/usr/share/ovn/ovn-$db.ovsschema"; done
  spawn ovn-nb ovsdb-server --remote=ptcp:6641:127.0.0.1 --unixctl="$dir/nb.ctl" --no-chdir --log-file="$run/log/ovn-nb.log" "$dir/nb.db"
  spawn ovn-sb ovsdb-server --remote=ptcp:6642:127.0.0.1 --unixctl="$dir/sb.ctl" --no-chdir --log-file="$run/log/ovn-sb.log" "$dir/sb.db"
  await 20 ovn-nb listens 6641
  await 20 ovn-sb listens 6642
  ovn-nbctl --db=tcp:127.0.0.1:6641 init
  ovn-sbctl --db=tcp:127.0.0.1:6642 init
  spawn ovn-northd env OVN_RUNDIR="$dir" ovn-northd --ovnnb-db=tcp:127.0.0.1:6641 --ovnsb-db=tcp:127.0.0.1:6642 \
    --unixctl="$dir/northd.ctl" --log-file="$run/log/ovn-northd.log"
}

uwsgi_service() { spawn "uwsgi-$1" uwsgi --ini "$run/etc/uwsgi-$1.ini"; }

start_services() {
  local etc=$run/etc zone
  start_ovn
  uwsgi_service keystone
  await 60 uwsgi-keystone answers http://127.0.0.1:5000/v3
  once catalog make_catalog
  uwsgi_service placement
  spawn glance "$bin/glance-api" --config-file "$etc/glance/glance.conf"
  spawn neutron "$bin/neutron-server" --config-file "$etc/neutron/neutron.conf"
  set -- --config-file "$etc/nova/nova.conf"
  spawn nova-conductor "$bin/nova-conductor" "$@"
  spawn nova-scheduler "$bin/nova-scheduler" "$@"
  spawn nova-api "$bin/nova-api" "$@"
  await 60 uwsgi-placement answers http://127.0.0.1:8778/
  for zone in $computes; do
    spawn "nova-compute-$zone" python3 -m osfake.nova_compute "$@" --config-file "$etc/nova/compute-$zone.conf"
  done
  for zone in api scheduler volume; do spawn "cinder-$zone" "$bin/cinder-$zone" --config-file "$etc/cinder/cinder.conf"; done
  await 90 neutron answers http://127.0.0.1:9696/
  uwsgi_service octavia-api
  spawn octavia-worker octavia-worker --config-file "$etc/octavia/worker.conf"
  # The ovn provider's library knows no other place for the agent's sockets.
  mkdir -p /var/run/octavia
  spawn octavia-driver-agent octavia-driver-agent --config-file "$etc/octavia/driver-agent.conf"
  uwsgi_service barbican
  await 90 glance answers http://127.0.0.1:9292/healthcheck
  await 90 nova-api answers http://127.0.0.1:8774/
  await 90 uwsgi-octavia-api answers http://127.0.0.1:9876/
  await 90 cinder-api listens 8776
  await 90 uwsgi-barbican listens 9311
}

# in_cloud COMMAND: bootstrap.py, which makes what is missing in the cloud.
in_cloud() {
  ISTHMUS_RUN=$run ISTHMUS_BIN=$bin ISTHMUS_PASSWORD=$password ISTHMUS_COMPUTES=$computes python3 "$here/bootstrap.py" "$1" ||
    die "setting the cloud up failed: see above and $run/log"
}
make_catalog() { in_cloud catalog; }
