# Debian packages: libraries and tools are installed. The packages of the services themselves
# bring init scripts, debconf questions, libvirt and qemu: they are only unpacked beside the
# system, for their small launchers and api-paste files.

install_packages() {
  # shellcheck disable=SC2046 # lists
  if ! dpkg -s $(cat "$here/packages.txt") > /dev/null 2>&1; then
    # Nothing may start by itself while it is installed: it would take our ports.
    local policy=/usr/sbin/policy-rc.d log=$state/apt.log ours=0
    [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' > $policy; chmod 755 $policy; ours=1; }
    # 022: packages' scripts make files that others must read.
    (
      umask 022
      export DEBIAN_FRONTEND=noninteractive
      apt-get update && apt-get install -y --no-install-recommends $(cat "$here/packages.txt")
    ) < /dev/null > "$log" 2>&1 || { tail -n 15 "$log" >&2; [ $ours = 0 ] || rm -f $policy; die "apt-get failed: see above and $log"; }
    [ $ours = 0 ] || rm -f $policy
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
