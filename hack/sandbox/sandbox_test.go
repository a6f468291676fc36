// Package sandbox tests what the scripts leave alone of the machine that they run on.
package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var namespaces = []string{"--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child"}

// needNamespaces skips where there are none to be had: the scripts say so, and fail.
func needNamespaces(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "unshare", append(namespaces, "--mount-proc", "mount", "-t", "tmpfs", "tmpfs", "/run")...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces without root: %v: %s", err, out)
	}
}

// inside prints on what file system each setting is that a kubelet writes and no namespace has of its own: in the
// sandbox, and in a machine in it.
const inside = `set -eu
settings="kernel/keys/root_maxbytes kernel/keys/root_maxkeys kernel/panic kernel/panic_on_oops vm/overcommit_memory vm/panic_on_oom"
look="cd /proc/sys; stat --file-system --format='%n %T' $settings"
sh -c "$look"
unshare --mount --pid --net --ipc --uts --fork --kill-child "$0" "$TMPDIR/machine" & outer=$!
for try in {1..600}; do # until it has booted
  first=$(cat /proc/$outer/task/$outer/children)
  [ ! -e "/proc/${first%% *}/root/run/booted" ] || break
  kill -0 $outer
  sleep 0.1
done
nsenter --target "${first%% *}" --mount --pid -- sh -c "$look"
`

// TestKernelKeepsItsSettings: a kubelet's vm.overcommit_memory and its like do not become those of the machine.
func TestKernelKeepsItsSettings(t *testing.T) {
	needNamespaces(t)
	scripts, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	args := append(namespaces[:len(namespaces):len(namespaces)], "--mount-proc", filepath.Join(scripts, "sandbox.sh"), "bash", "-c", inside, filepath.Join(scripts, "machine.sh"))
	cmd := exec.CommandContext(t.Context(), "unshare", args...) //nolint:gosec // our own scripts
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), " tmpfs\n") != 12 || strings.Contains(string(out), " proc\n") {
		t.Errorf("%v: six settings in the sandbox and six in the machine have to be files in memory:\n%s", err, out)
	}
}

// TestHiddenRepository: where the sandbox would hide the repository, it says so before it begins.
func TestHiddenRepository(t *testing.T) {
	needNamespaces(t)
	dir, err := os.MkdirTemp("/run", "isthmus-hidden-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.CopyFS(filepath.Join(dir, "hack/sandbox"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "hack/sandbox/quickstart.sh")).CombinedOutput() //nolint:gosec // our own script
	if err == nil || !strings.Contains(string(out), "hide "+dir+" there") {
		t.Errorf("%v: %s", err, out)
	}
}
