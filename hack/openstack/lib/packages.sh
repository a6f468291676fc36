# Debian packages: libraries and tools are installed. The packages of the services themselves
# bring init scripts, debconf questions, libvirt and qemu: they are only unpacked beside the
# system, for their small launchers and api-paste files.

# installed: whether all packages are there, configured. One that was removed, or that an
# interrupted installation has left half done, is known to dpkg, too, and does not count.
installed() {
  local states
  # shellcheck disable=SC2046 # a list
  states=$(dpkg-query -W -f '${db:Status-Status}\n' $(cat "$here/packages.txt") 2>/dev/null) || return 1
  ! grep -qvx installed <<< "$states"
}

# apt_install: installs what is missing. Nothing may start by itself meanwhile: it would take
# our ports. The file that forbids it goes however this ends; one that a killed installation
# has left is ours by its second line.
apt_install() (
  policy=/usr/sbin/policy-rc.d mark="# of Isthmus' hack/openstack"
  if [ ! -e $policy ] || grep -qxF "$mark" $policy; then
    trap 'rm -f $policy' EXIT
    trap 'exit 130' INT TERM HUP
    printf '#!/bin/sh\n%s\nexit 101\n' "$mark" > $policy
    chmod 755 $policy
  fi
  umask 022 # packages' scripts make files that others must read
  export DEBIAN_FRONTEND=noninteractive
  dpkg --configure -a || true # what was interrupted; where it cannot, apt-get says why
  apt-get -o DPkg::Lock::Timeout=300 update &&
    apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $(cat "$here/packages.txt")
)

install_packages() {
  if ! installed; then
    local log=$state/apt.log
    apt_install < /dev/null > "$log" 2>&1 || { tail -n 15 "$log" >&2; die "apt-get failed: see above and $log"; }
  fi
  if [ ! -e "$state/root/complete" ]; then
    local log=$state/download.log deb
    rm -rf "$state/root" "$state/debs"
    mkdir -p "$state/root" "$state/debs"
    # shellcheck disable=SC2046 # a list
    (cd "$state/debs" && apt-get download $(cat "$here/packages-unpacked.txt")) > "$log" 2>&1 || { tail -n 15 "$log" >&2; die "apt-get download failed: see above and $log"; }
    for deb in "$state"/debs/*.deb; do dpkg -x "$deb" "$state/root"; done
    rm -rf "$state/debs"
    touch "$state/root/complete"
  fi
}
