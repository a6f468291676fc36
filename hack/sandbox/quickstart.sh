#!/usr/bin/env bash
# quickstart.sh [ARGUMENT…]: `make quickstart CLUSTER=1`, a whole cluster to look at.
set -uo pipefail
cd "$(dirname "$0")/../.."
die() { echo "quickstart: $*" >&2; exit 1; }
. hack/sandbox/prepare.sh
${GO:-go} build -ldflags '-s -w' -o "$bin/" ./test/e2e/kubelet/testdata/pause ./test/cluster/testdata/hello || exit 1
in_sandbox "$PWD/bin/quickstart" --cluster "$@"
