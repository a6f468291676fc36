# Configuration: rendered anew at each start, from templates/ into $run/etc.

# use_debian_python: the packages need Debian's own python3 and no proxy for loopback.
use_debian_python() {
  export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=$run/home
  export PYTHONPATH=$run/plugins PYTHONWARNINGS=ignore PYTHONDONTWRITEBYTECODE=1
  unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY PYTHONHOME VIRTUAL_ENV
}

# prepare_state: the folders. The databases live on a RAM disk where there is room (their
# schemas then take a third of the time); when it was lost in a reboot, everything else of
# the old cloud goes, too.
prepare_state() {
  if [ ! -d "$run/db/done" ]; then
    stop_all
    rm -rf "$run"
    mkdir -p "$run"
    local where=$state/db free
    free=$(df --output=avail -m /dev/shm 2>/dev/null | tail -n 1) || free=0
    [ "${free:-0}" -lt 1024 ] || where=/dev/shm/isthmus-openstack-$(cksum <<< "$state" | cut -d ' ' -f 1)
    rm -rf "$where"
    mkdir -p "$where/done"
    ln -s "$where" "$run/db"
  fi
  mkdir -p "$run"/{pid,log,home/.barbican,rabbitmq,ovn,octavia,neutron,nova,cinder,glance/images} \
    "$run"/lock/{nova,neutron,cinder,glance,placement,octavia,barbican} \
    "$run"/etc/{keystone,nova,placement,glance,neutron,octavia,cinder,barbican} "$run"/keystone/{fernet-keys,credential-keys}
  rm -rf "$run/plugins"
  cp -r "$here/plugins" "$run/plugins"
}

# render TEMPLATE [USER [PROCESS]]: prints it with its placeholders filled in.
render() {
  sed -e "s#@STATE@#$state#g;s#@RUN@#$run#g;s#@PW@#$password#g;s#@SVC@#${2:-}#g;s#@PROC@#${3:-}#g" "$here/templates/$1" |
    awk -v pw="$password" '/^@AUTH / {
      sub(/@$/, "", $2)
      print "auth_url = http://127.0.0.1:5000\nauth_type = password\nproject_domain_name = Default\nuser_domain_name = Default"
      print "project_name = service\nusername = " $2 "\npassword = " pw
      next
    } {print}'
}

# wsgi NAME PORT PROCESSES THREADS FILE LINE…: a service that uwsgi serves.
wsgi() {
  render uwsgi.ini | sed -e "s#@NAME@#$1#g;s#@PORT@#$2#g;s#@PROCS@#$3#g;s#@THREADS@#$4#g;s#@WSGI@#$5#g" > "$run/etc/uwsgi-$1.ini"
  local ini=$run/etc/uwsgi-$1.ini
  shift 5
  printf '%s\n' "$@" >> "$ini"
}

configure() {
  local etc=$run/etc service zone
  render keystone.conf > "$etc/keystone/keystone.conf"
  for service in nova placement glance neutron cinder barbican; do
    { render $service.conf $service; render common.conf $service; } > "$etc/$service/$service.conf"
  done
  for service in api worker driver-agent; do
    { render octavia.conf octavia $service; render common.conf octavia; } > "$etc/octavia/$service.conf"
  done
  for zone in $computes; do
    printf '[DEFAULT]\nhost = compute-%s\nlog_file = %s/log/nova-compute-%s.log\n' "$zone" "$run" "$zone" > "$etc/nova/compute-$zone.conf"
  done
  # Barbican looks for its file in places of its own only; the home folder is one of them.
  sed "s#/etc/barbican/#$etc/barbican/#" "$state/root/usr/share/barbican-common/barbican-api-paste.ini" > "$etc/barbican/barbican-api-paste.ini"
  ln -sf "$etc/barbican/barbican.conf" "$run/home/.barbican/barbican.conf"
  printf 'from paste import deploy\napplication = deploy.loadapp("config:%s/barbican/barbican-api-paste.ini")\n' "$etc" > "$etc/barbican/wsgi.py"

  wsgi keystone 5000 2 4 /usr/bin/keystone-wsgi-public "env = OS_KEYSTONE_CONFIG_DIR=$etc/keystone" "env = OS_KEYSTONE_CONFIG_FILES=keystone.conf"
  wsgi placement 8778 1 4 /usr/bin/placement-api "env = OS_PLACEMENT_CONFIG_DIR=$etc/placement"
  cp "$here/templates/octavia-wsgi.py" "$etc/octavia/wsgi.py"
  wsgi octavia-api 9876 1 8 "$etc/octavia/wsgi.py" "pyargv = --config-file=$etc/octavia/api.conf"
  wsgi barbican 9311 1 4 "$etc/barbican/wsgi.py" "env = HOME=$run/home"

  if [ ! -s "$run/octavia/client.pem" ]; then
    openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=fake-octavia-ca \
      -keyout "$run/octavia/ca.key" -out "$run/octavia/ca.crt" 2> /dev/null || die "openssl made no certificate for Octavia"
    cat "$run/octavia/ca.crt" "$run/octavia/ca.key" > "$run/octavia/client.pem"
  fi
  openrc admin admin > "$run/admin-openrc"
  openrc k8s k8s > "$run/k8s-openrc"
}

openrc() { # USER PROJECT
  echo "export OS_AUTH_URL=http://127.0.0.1:5000/v3 OS_IDENTITY_API_VERSION=3 OS_REGION_NAME=RegionOne"
  echo "export OS_USERNAME=$1 OS_PASSWORD=$password OS_PROJECT_NAME=$2 OS_USER_DOMAIN_NAME=Default OS_PROJECT_DOMAIN_NAME=Default"
}
