#!/usr/bin/env bash
# sandbox.sh COMMAND…: the first process in new namespaces; e2e.sh starts it there. It gives
# the command a network with loopback alone and folders in memory. When it ends, however it
# does, all processes and mounts in here end with it.
set -euo pipefail
ip link set lo up
ip address add 192.0.2.10/32 dev lo # the node's: the kubelet refuses an address of 127.0.0.0/8
for folder in /run /var/lib /var/log /opt "$TMPDIR"; do mount -t tmpfs tmpfs "$folder"; done
for folder in /etc /usr/bin; do # what is written there stays in memory
  mkdir -p /run/over"$folder"/{new,work}
  mount -t overlay -o lowerdir="$folder",upperdir=/run/over"$folder"/new,workdir=/run/over"$folder"/work overlay "$folder"
done
. "$(dirname "$0")/settings.sh"
mkdir /run/isthmus-e2e
trap 'exit 130' INT TERM HUP
"$@" & wait $!
