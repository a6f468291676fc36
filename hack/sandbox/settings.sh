# settings.sh, to be sourced where /run is a folder in memory: what a kubelet sets in the kernel, which no
# namespace has of its own, it sets in files of /run. This machine keeps its own.
for setting in kernel/keys/root_maxbytes kernel/keys/root_maxkeys kernel/panic kernel/panic_on_oops vm/overcommit_memory vm/panic_on_oom; do
  mkdir -p "/run/sys/${setting%/*}"
  cat "/proc/sys/$setting" > "/run/sys/$setting"
  mount --bind "/run/sys/$setting" "/proc/sys/$setting"
done
