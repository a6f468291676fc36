#!/usr/bin/env bash
# enter.sh [COMMAND…]: runs a command, or a shell, where `make quickstart CLUSTER=1` runs its cluster.
set -euo pipefail
bin=$(cd "$(dirname "$0")/../../bin/e2e" && pwd)
outer=$(cat "$bin/sandbox.pid" 2> /dev/null) && [ "$(cat "/proc/$outer/comm" 2> /dev/null)" = unshare ] && first=$(cat "/proc/$outer/task/$outer/children" 2> /dev/null) ||
  { echo "enter: no cluster runs: start one with \`make quickstart CLUSTER=1\`" >&2; exit 1; }
[ $# -gt 0 ] || set -- bash
exec nsenter --target "${first%% *}" --wdns="$PWD" --mount --pid --net --ipc --uts -- \
  env KUBECONFIG="$bin/tmp/cluster/kubeconfig" PATH="$bin:$PATH" "$@"
