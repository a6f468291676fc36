# Processes without systemd: started apart from this script, known by files in $run/pid.

die() { echo "openstack: $*" >&2; exit 1; }

# step WHAT FUNCTION…: runs the function and says every 5 s that it is still at it.
step() {
  local what=$1 begin=$SECONDS; shift
  echo "==> $what"
  ( while sleep 5; do echo "    … $what ($((SECONDS - begin)) s)"; done ) {lock}>&- & ticker=$!
  trap 'kill "$ticker" 2>/dev/null || true' EXIT
  "$@"
  { kill "$ticker" && wait "$ticker"; } 2>/dev/null || true
  trap - EXIT
  echo "    $what: $((SECONDS - begin)) s"
}

# started_at PID: when the process began, in ticks since boot. With it a process is the one
# that was started here and not another that has got its ID since.
started_at() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  # shellcheck disable=SC2086 # the fields behind the command's name, which may hold spaces
  set -- ${stat##*) }
  [ "$1" != Z ] && echo "${20}"
}

# alive NAME: whether what was started under this name still runs; sets pid.
alive() {
  local began
  [ -s "$run/pid/$1" ] || return 1
  read -r pid began < "$run/pid/$1"
  [ "$(started_at "$pid")" = "$began" ]
}

# spawn NAME COMMAND…: runs the command in a session of its own, unless it runs already.
# The lock of this script must not go along, or it would be held for ever.
spawn() {
  local name=$1 n; shift
  alive "$name" && return 0
  rm -f "$run/pid/$name"
  PIDFILE="$run/pid/$name" setsid -f "$here/lib/daemon.sh" "$@" >> "$run/log/$name.out" 2>&1 < /dev/null {lock}>&-
  for ((n = 0; n < 50; n++)); do [ -s "$run/pid/$name" ] && return 0; sleep .1; done
  die "$name could not be started: see $run/log/$name.out"
}

# died NAME: says what the service wrote last, and ends.
died() {
  local log
  for log in "$run/log/$1".* "$run/log/${1#uwsgi-}".log; do
    [ -s "$log" ] && { echo "--- the end of $log"; tail -n 15 "$log"; }
  done >&2
  die "$1 has died: see above and $run/log"
}

# await SECONDS NAME COMMAND…: until the command succeeds; ends when the service dies.
await() {
  local limit=$1 name=$2 begin=$SECONDS; shift 2
  until "$@"; do
    alive "$name" || died "$name"
    [ $((SECONDS - begin)) -lt "$limit" ] || die "$name runs but does not answer ($*) after $limit s: see $run/log"
    sleep .2
  done
}

listens() { (exec 3<> "/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
answers() { # URL, with any 2xx or 3xx
  local code
  code=$(curl --noproxy '*' -s -o /dev/null -w '%{http_code}' -m 20 "$1") || return 1
  case $code in 2* | 3*) ;; *) return 1 ;; esac
}

# ports: what listens where. Kept in step with templates/.
ports="3306 mariadb 11211 memcached 14369 epmd 5672 rabbitmq 25672 rabbitmq 6641 ovn-nb 6642 ovn-sb
  5000 uwsgi-keystone 8778 uwsgi-placement 9292 glance 9696 neutron 8774 nova-api 8776 cinder-api 9876 uwsgi-octavia-api 9311 uwsgi-barbican"

# check_ports: none of the ports of what is to start is taken by someone else.
check_ports() {
  local taken=0 port name owner
  # shellcheck disable=SC2086 # a list
  set -- $ports
  while [ $# -gt 0 ]; do
    port=$1 name=$2; shift 2
    alive "$name" && continue
    owner=$(ss -Hltnp "sport = :$port" | awk '$4 ~ /^(127\.0\.0\.1|0\.0\.0\.0|\*|\[::\]|\[::ffff:127\.0\.0\.1\]):/ {print; exit}')
    [ -n "$owner" ] || continue
    owner=$(sed -n 's/.*users:(("\([^"]*\)",pid=\([0-9]*\).*/\1 (process \2)/p' <<< "$owner")
    echo "openstack: port $port of $name is taken by ${owner:-a process that cannot be seen from here}" >&2
    taken=1
  done
  [ "$taken" = 0 ] || die "ports are taken, see above: end these processes, then try again"
}

# stopped_service: prints the first service that was started and does not run; 1 when there is none.
stopped_service() {
  local file
  for file in "$run"/pid/*; do
    [ -e "$file" ] || continue
    alive "$(basename "$file")" || { basename "$file"; return 0; }
  done
  return 1
}

# signal NAME SIGNAL: to the service and all that it started. A group outlives its leader, and
# while it does, the kernel gives the leader's number to nobody else.
signal() {
  local began
  read -r pid began < "$run/pid/$1" || return 0
  if alive "$1" || [ ! -e "/proc/$pid" ]; then kill "-$2" -- "-$pid" 2>/dev/null || true; fi
}

stop_all() {
  local file pid n left
  for file in "$run"/pid/*; do [ ! -e "$file" ] || signal "$(basename "$file")" TERM; done
  for ((n = 0; n < 40; n++)); do
    left=0
    for file in "$run"/pid/*; do if [ -e "$file" ] && alive "$(basename "$file")"; then left=1; fi; done
    [ "$left" = 1 ] || break
    sleep .2
  done
  for file in "$run"/pid/*; do
    [ -e "$file" ] || continue
    signal "$(basename "$file")" KILL
    rm -f "$file"
  done
}

status() {
  local file name pid memory total=0 down=0
  for file in "$run"/pid/*; do
    [ -e "$file" ] || continue
    name=$(basename "$file")
    if alive "$name"; then
      memory=$(ps -e -o pgid=,rss= | awk -v g="$pid" '$1 == g {s += $2} END {print int(s / 1024)}')
      total=$((total + memory))
      printf '%-22s up    process %-8s %5s MiB\n' "$name" "$pid" "$memory"
    else
      printf '%-22s DOWN  see %s\n' "$name" "$run/log"
      down=1
    fi
  done
  [ "$total" -gt 0 ] || { echo "OpenStack is not running: openstack-up starts it"; exit 3; }
  [ "$down" = 0 ] || { echo "OpenStack is partly down: openstack-up starts what is missing"; exit 3; }
  answers http://127.0.0.1:5000/v3 || { echo "OpenStack runs but Keystone does not answer: see $run/log"; exit 3; }
  echo "OpenStack is up ($total MiB) at http://127.0.0.1:5000/v3; credentials: $run/k8s-openrc, admin-openrc, appcred.json"
}
