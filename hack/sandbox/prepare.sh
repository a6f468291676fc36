# prepare.sh, to be sourced at the repository's root where die is defined: it gets the programs of
# Debian that a node needs into $bin and defines in_sandbox COMMAND…, which runs a command in
# namespaces of its own with sandbox.sh, once on a machine at a time.
[ "$(id -u)" = 0 ] || die "a kubelet and a containerd need root: run it as root"
case $(pwd -P)/ in
  /run/* | /var/lib/* | /var/log/* | /opt/* | /etc/* | /usr/bin/*) die "folders of its own hide $(pwd -P) there: put the repository elsewhere, as into /srv" ;;
esac
for tool in unshare setpriv nsenter flock ip apt-get dpkg; do
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
      [ ! -d "$root/isthmus-e2e" ] || find "$root/isthmus-e2e" -depth -type d -exec rmdir {} + 2> /dev/null || left=1
    done
    [ $left = 1 ] || return 0
    sleep 0.1
  done
  return 1
}
[ -d "${roots[0]}" ] || die "there are no cgroups in /sys/fs/cgroup: containers need them"
exec 9< "${roots[0]}"
flock -n 9 || die "another cluster or e2e-kubelet runs on this machine: wait for its end"
remove_cgroups || die "cgroups of an earlier run are still in use: find /sys/fs/cgroup -name isthmus-e2e"
for root in "${roots[@]}"; do
  mkdir -p "$root/isthmus-e2e" || die "cannot make a cgroup in $root: containers need cgroups that root may write to"
done

bin=$PWD/bin/e2e
mkdir -p "$bin/tmp"
packages=(containerd runc docker-registry containernetworking-plugins nftables libnftables1 libnftnl11 libxtables12 libmnl0 libjansson4 libedit2 libbsd0)
if [ "$(cat "$bin/debian" 2> /dev/null)" != "${packages[*]}" ]; then
  echo "==> unpacking ${packages[*]} of Debian into $bin (nothing is installed)"
  debs=$(mktemp -d) && chmod 755 "$debs"
  (cd "$debs" && apt-get -qq update && apt-get -qq download "${packages[@]}" && for deb in *.deb; do dpkg -x "$deb" root || exit 1; done) > "$debs/log" 2>&1 ||
    { tail -n 15 "$debs/log" >&2; die "the Debian packages cannot be had, see above"; }
  mkdir -p "$bin/cni" "$bin/lib"
  cp "$debs"/root/usr/bin/{containerd,containerd-shim-runc-v2,ctr,docker-registry} "$debs"/root/usr/sbin/{runc,nft} "$bin/" &&
    cp "$debs"/root/usr/lib/cni/{bridge,host-local,loopback} "$bin/cni/" && cp -a "$debs"/root/usr/lib/*/lib*.so.* "$bin/lib/" || die "the Debian packages hold something else"
  rm -rf "$debs"
  echo "${packages[*]}" > "$bin/debian"
fi
for tool in etcd kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl helm; do
  [ ! -e "$bin/../$tool" ] || ln -sf "../$tool" "$bin/$tool"
done

in_sandbox() {
  local rc sandbox=
  trap 'kill -KILL $sandbox 2> /dev/null; wait; rm -f "$bin/sandbox.pid"; remove_cgroups' EXIT
  trap 'exit 130' INT TERM HUP
  # Each ends with the one before it, the last with all that runs in the namespaces.
  TMPDIR=$bin/tmp ISTHMUS_E2E_BIN=$bin setpriv --pdeathsig KILL unshare --mount --pid --net --ipc --uts --fork --kill-child --mount-proc \
    "$bin/../../hack/sandbox/sandbox.sh" "$@" & sandbox=$!
  echo $sandbox > "$bin/sandbox.pid"
  wait $sandbox
  rc=$?
  rm -f "$bin/sandbox.pid"
  trap - EXIT INT TERM HUP
  remove_cgroups || { echo "cgroups are left behind: find /sys/fs/cgroup -name isthmus-e2e" >&2; rc=1; }
  return "$rc"
}
