#!/usr/bin/env bash
# e2e.sh [ARGUMENT…]: the end-to-end tests with a real kubelet, with arguments for `go test`
# (-run, …). All runs in namespaces of its own for mounts, processes and network, so that
# nothing of it is left behind, also when it is killed.
set -uo pipefail
cd "$(dirname "$0")/../.."
die() { echo "e2e-kubelet: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "a kubelet and a containerd need root: run it as root"
for tool in unshare setpriv flock ip apt-get dpkg; do
  command -v $tool > /dev/null || die "there is no $tool: this needs Debian with util-linux and iproute2"
done
unshare --mount --pid --net --ipc --uts --fork --kill-child true || die "this machine does not let root make namespaces (a container without CAP_SYS_ADMIN?): run it on a machine or in a privileged container"

# The cgroup, in version 2 or in each hierarchy of version 1. An empty tree of a killed run goes first.
roots=(/sys/fs/cgroup)
[ -e /sys/fs/cgroup/cgroup.controllers ] || roots=(/sys/fs/cgroup/*/)
remove_cgroups() {
  local left try root
  for try in {1..50}; do # what was killed may take a moment to go
    left=0
    for root in "${roots[@]}"; do
      [ ! -d "$root/isthmus-e2e-kubelet" ] || find "$root/isthmus-e2e-kubelet" -depth -type d -exec rmdir {} + 2> /dev/null || left=1
    done
    [ $left = 1 ] || return 0
    sleep 0.1
  done
  return 1
}
[ -d "${roots[0]}" ] || die "there are no cgroups in /sys/fs/cgroup: containers need them"
exec 9< "${roots[0]}"
flock -n 9 || die "another e2e-kubelet runs on this machine: wait for its end"
remove_cgroups || die "cgroups of an earlier run are still in use: find /sys/fs/cgroup -name isthmus-e2e-kubelet"
for root in "${roots[@]}"; do
  mkdir -p "$root/isthmus-e2e-kubelet" || die "cannot make a cgroup in $root: containers need cgroups that root may write to"
done

bin=$PWD/bin/e2e-kubelet
mkdir -p "$bin/tmp"
if [ ! -e "$bin/debian" ]; then
  echo "==> unpacking containerd, runc and docker-registry of Debian into $bin (nothing is installed)"
  debs=$(mktemp -d) && chmod 755 "$debs"
  (cd "$debs" && apt-get -qq update && apt-get -qq download containerd runc docker-registry && for deb in *.deb; do dpkg -x "$deb" root || exit 1; done) > "$debs/log" 2>&1 ||
    { tail -n 15 "$debs/log" >&2; die "the Debian packages cannot be had, see above"; }
  cp "$debs"/root/usr/bin/{containerd,containerd-shim-runc-v2,ctr,docker-registry} "$debs/root/usr/sbin/runc" "$bin/" || die "the Debian packages hold something else"
  rm -rf "$debs"
  touch "$bin/debian"
fi
ln -sf ../kubelet "$bin/kubelet"
begin=$SECONDS
${GO:-go} build -ldflags '-s -w' -o "$bin/isthmus-credential-provider" ./cmd/credential-provider &&
  ${GO:-go} build -ldflags '-s -w' -o "$bin/" ./test/e2e/kubelet/testdata/{pause,systemctl} &&
  ${GO:-go} test -c -vet=off -tags e2e -o "$bin/e2e.test" ./test/e2e/kubelet || die "it does not compile, see above"
echo "    built: $((SECONDS - begin)) s"

echo "==> test/e2e/kubelet"
begin=$SECONDS
sandbox=
trap 'kill -KILL $sandbox 2> /dev/null; wait; remove_cgroups' EXIT
trap 'exit 130' INT TERM HUP
args=()
for a in "$@"; do case $a in -run | -v | -skip | -count | -parallel | -timeout | -failfast) args+=("-test.${a#-}") ;; -*=*) args+=("-test.${a#-}") ;; *) args+=("$a") ;; esac; done
cd test/e2e/kubelet || exit 1
# Each ends with the one before it, the last with all that runs in the namespaces.
TMPDIR=$bin/tmp ISTHMUS_E2E_BIN=$bin setpriv --pdeathsig KILL unshare --mount --pid --net --ipc --uts --fork --kill-child --mount-proc \
  ../../../hack/kubelet/sandbox.sh "$bin/e2e.test" -test.v -test.parallel 8 -test.timeout 10m "${args[@]}" & sandbox=$!
wait $sandbox
rc=$?
echo "    tests: $((SECONDS - begin)) s"
[ "$rc" = 0 ] || echo "e2e-kubelet: the tests failed, see above for what the tests, the kubelet, containerd and the registries say" >&2
trap - EXIT
remove_cgroups || { echo "e2e-kubelet: cgroups are left behind: find /sys/fs/cgroup -name isthmus-e2e-kubelet" >&2; rc=1; }
exit "$rc"
