#!/usr/bin/env bash
# machine.sh DISK: the first process of a machine of test/cluster, in namespaces of its own below
# those of sandbox.sh. What is written to the folders below stays on DISK when the machine ends.
set -euo pipefail
disk=$1
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
. "$(dirname "$0")/settings.sh"
for folder in /var/lib /var/log /opt; do
  mkdir -p "$disk$folder"
  mount --bind "$disk$folder" "$folder"
done
for folder in /etc /usr; do
  mkdir -p "$disk/over$folder"/{new,work}
  mount -t overlay -o lowerdir="$folder",upperdir="$disk/over$folder/new",workdir="$disk/over$folder/work" overlay "$folder"
done
hostname "$(basename "$disk")"
ip link set lo up
for setting in net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1; do
  echo "${setting#*=}" > "/proc/sys/$(tr . / <<< "${setting%=*}")"
done
mount --make-rshared / # as systemd has it: the kubelet's mounts reach the containers
touch /run/booted
# It stays until it is killed, and then all in the machine ends. Bash buries orphans.
while :; do sleep 3600 & wait; done
