#!/usr/bin/env bash
# openstack.sh up | down [--wipe] | status
#
# A real OpenStack Zed of Debian 12's packages on 127.0.0.1, without systemd, hypervisor and
# agents: see README.md. Everything may be repeated: up starts only what does not run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
state=${ISTHMUS_OPENSTACK_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/isthmus/openstack}
run=$state/run # configuration, logs, credentials: all that down --wipe removes
password=secret
computes="az1 az2 az3" # one nova-compute for each availability zone
umask 077

. "$here/lib/process.sh"
. "$here/lib/packages.sh"
. "$here/lib/config.sh"
. "$here/lib/services.sh"

usage() { sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

check_machine() {
  [ "$(id -u)" = 0 ] || die "this installs Debian packages and needs root: run it as root"
  local ID="" VERSION_ID=""
  [ -r /etc/os-release ] && . /etc/os-release
  [ "$ID $VERSION_ID" = "debian 12" ] || die "this needs Debian 12 (bookworm), whose OpenStack is Zed; here is ${ID:-an unknown system} ${VERSION_ID:-}: use a container or virtual machine of Debian 12"
  # The path of a Unix socket may have 107 characters.
  [ ${#run} -le 80 ] || die "the state folder $state has too long a name for the sockets in it: set ISTHMUS_OPENSTACK_HOME to a shorter one"
  local free; free=$(awk '/^MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)
  [ "$free" -ge 4096 ] || stopped_service >/dev/null || echo "warning: $free MiB of memory are free, and this needs about 3,600" >&2
}

up() {
  check_machine
  mkdir -p "$state"
  exec {lock}>"$state/lock"
  flock -n "$lock" || { echo "another openstack-up or -down is at work, waiting for it"; flock "$lock"; }
  step "packages" install_packages
  use_debian_python
  prepare_state
  check_ports
  step "configuration" configure
  step "database and message queue" start_infrastructure
  step "schemas" make_schemas
  step "services" start_services
  step "networks, flavors, servers" in_cloud project
  local name; name=$(stopped_service) && died "$name"
  echo "OpenStack is up at http://127.0.0.1:5000/v3, after $SECONDS s"
  echo "credentials: $run/k8s-openrc (a project's member), $run/admin-openrc, $run/appcred.json (application credential)"
  echo "logs:        $run/log"
}

down() {
  case "${1:-}" in '' | --wipe) ;; *) usage ;; esac
  [ "$(id -u)" = 0 ] || die "the cloud's services run as root: run this as root"
  mkdir -p "$state"
  exec {lock}>"$state/lock"
  flock "$lock"
  stop_all
  if [ "${1:-}" = --wipe ]; then
    [ -L "$run/db" ] && rm -rf "$(readlink "$run/db")"
    rm -rf "$run"
    echo "OpenStack is stopped and its state removed; the packages stay"
  else
    echo "OpenStack is stopped; openstack-up starts it again with all it has, ARGS=--wipe removes that"
  fi
}

[ $# -ge 1 ] || usage
command=$1; shift
case $command in
  up | status) [ $# = 0 ] || usage; "$command" ;;
  down) [ $# -le 1 ] || usage; down "$@" ;;
  *) usage ;;
esac
