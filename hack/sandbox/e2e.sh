#!/usr/bin/env bash
# e2e.sh kubelet|cluster [ARGUMENT…]: the end-to-end tests of test/e2e/NAME, with arguments for `go
# test` (-run, …). All runs in namespaces of its own for mounts, processes and network, so that
# nothing of it is left behind, also when it is killed.
set -uo pipefail
cd "$(dirname "$0")/../.."
suite=$1
shift
die() { echo "e2e-$suite: $*" >&2; exit 1; }
. hack/sandbox/prepare.sh

begin=$SECONDS
programs=(./test/e2e/kubelet/testdata/{pause,systemctl})
[ "$suite" != cluster ] || programs+=(./test/cluster/testdata/hello)
${GO:-go} build -ldflags '-s -w' -o "$bin/isthmus-credential-provider" ./cmd/credential-provider &&
  ${GO:-go} build -ldflags '-s -w' -o "$bin/" "${programs[@]}" &&
  ${GO:-go} test -c -vet=off -tags e2e -o "$bin/$suite.test" "./test/e2e/$suite" || die "it does not compile, see above"
echo "    built: $((SECONDS - begin)) s"

echo "==> test/e2e/$suite"
begin=$SECONDS
args=()
for a in "$@"; do case $a in -run | -v | -skip | -count | -parallel | -timeout | -failfast) args+=("-test.${a#-}") ;; -*=*) args+=("-test.${a#-}") ;; *) args+=("$a") ;; esac; done
cd "test/e2e/$suite" || exit 1
in_sandbox "$bin/$suite.test" -test.v -test.parallel 8 -test.timeout 15m "${args[@]}"
rc=$?
echo "    tests: $((SECONDS - begin)) s"
[ "$rc" = 0 ] || echo "e2e-$suite: the tests failed, see above for what the tests and the programs of the cluster say" >&2
exit "$rc"
