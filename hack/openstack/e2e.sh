#!/usr/bin/env bash
# e2e.sh [ARGUMENT…]: the end-to-end tests against the real OpenStack, with arguments for
# `go test`. The cloud is started if it is not up, and then stopped again in the end.
# With OCCM, the path of openstack-cloud-controller-manager's binary, clusters are also handed
# over between that and ours.
set -uo pipefail
occm=${OCCM:+$(realpath "$OCCM")}
cd "$(dirname "$0")/../.."
if [ -n "$occm" ]; then
  [ -x "$occm" ] || { echo "e2e-openstack: OCCM=$OCCM is no program" >&2; exit 2; }
  tags=e2e,occm own=(-occm "$occm")
else
  tags=e2e own=()
fi
cloud=hack/openstack/openstack.sh
if "$cloud" status > /dev/null 2>&1; then
  echo "==> OpenStack is up already, and stays so"
else
  echo "==> OpenStack is not up: starting it, it will be stopped in the end"
  # However this ends, also by Ctrl-C.
  trap '"$cloud" down' EXIT
  trap 'exit 130' INT TERM HUP
  "$cloud" up || { echo "e2e-openstack: there is no OpenStack to test against, see above" >&2; exit 1; }
fi
echo "==> go test -tags $tags ./test/e2e/openstack"
[ -n "$occm" ] || echo "    not run: OCCM=PATH not given (what runs openstack-cloud-controller-manager itself)"
begin=$SECONDS
# -v: what runs is shown while it runs. -parallel: most of it waits for the cloud. -count 1: the cloud is no input that Go could cache by.
${GO:-go} test -tags "$tags" -vet=off -count 1 -parallel 8 -timeout 90m -v ./test/e2e/openstack "$@" "${own[@]}"
rc=$?
echo "    tests: $((SECONDS - begin)) s"
[ "$rc" = 0 ] || echo "e2e-openstack: the tests failed, see above for what the tests, the controllers' logs and the cloud say" >&2
exit "$rc"
