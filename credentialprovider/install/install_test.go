package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// plan is what the tests install: a program, a link to it, a file and the file that names all.
func plan(dir, version string) Plan {
	return Plan{BinDir: filepath.Join(dir, "bin"), ConfigDir: filepath.Join(dir, "etc"), Items: []Item{
		{Dir: Bin, Name: "provider", Data: []byte("#!/bin/sh\necho " + version + "\n"), Mode: 0o755},
		{Dir: Bin, Name: "provider-ecr", Link: "provider"},
		{Dir: Config, Name: "cloud.conf", Data: []byte("secret of " + version), Mode: 0o600},
		{Dir: Config, Name: "providers.yaml", Data: []byte("uses all of " + version), Mode: 0o600, Restart: true},
	}}
}

// tree is what is in the two directories, the record left out.
func tree(t *testing.T, p Plan) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range []string{p.BinDir, p.ConfigDir} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if e.Name() == recordName {
				continue
			}
			if target, err := os.Readlink(path); err == nil {
				out[e.Name()] = "-> " + target
				continue
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			out[e.Name()] = fmt.Sprintf("%v %s", info.Mode().Perm(), data)
		}
	}
	return out
}

// times are the times of all that is in the two directories, and theirs.
func times(t *testing.T, p Plan) map[string]time.Time {
	t.Helper()
	out := map[string]time.Time{}
	for _, dir := range []string{p.BinDir, p.ConfigDir} {
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			out[path] = info.ModTime()
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func run(t *testing.T, p Plan) Result {
	t.Helper()
	r, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestInstallUpgradeRollback(t *testing.T) {
	dir := t.TempDir()
	one, two := plan(dir, "1"), plan(dir, "2")
	first := run(t, one)
	if len(first.Changed) != 4 || !first.Restart {
		t.Errorf("the first installation: %+v", first)
	}
	want := map[string]string{
		"provider": "-rwxr-xr-x #!/bin/sh\necho 1\n", "provider-ecr": "-> provider",
		"cloud.conf": "-rw------- secret of 1", "providers.yaml": "-rw------- uses all of 1",
	}
	if diff := cmp.Diff(want, tree(t, one)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := one.Restarted(); err != nil {
		t.Fatal(err)
	}
	// The same again writes nothing, not even the record.
	before := times(t, one)
	if r := run(t, one); len(r.Changed) != 0 || r.Restart {
		t.Errorf("the same again: %+v", r)
	}
	if diff := cmp.Diff(before, times(t, one)); diff != "" {
		t.Errorf("the same again writes (-before +after):\n%s", diff)
	}
	// Up, and back again. The link stays as it is.
	for _, p := range []Plan{two, one} {
		if r := run(t, p); len(r.Changed) != 3 || !r.Restart {
			t.Errorf("another version: %+v", r)
		}
	}
	if diff := cmp.Diff(want, tree(t, one)); diff != "" {
		t.Errorf("after a rollback (-want +got):\n%s", diff)
	}
	// A restart that is due is not forgotten by the next run, which changes nothing.
	if r := run(t, one); len(r.Changed) != 0 || !r.Restart {
		t.Errorf("a restart that is due: %+v", r)
	}
	// A new program alone needs none.
	if err := one.Restarted(); err != nil {
		t.Fatal(err)
	}
	one.Items[0].Data = two.Items[0].Data
	if r := run(t, one); len(r.Changed) != 1 || r.Restart {
		t.Errorf("a new program: %+v", r)
	}
}

// What the kubelet does not run with is undone, and not installed again.
func TestUndo(t *testing.T) {
	one := plan(t.TempDir(), "1")
	run(t, one)
	two := plan(filepath.Dir(one.BinDir), "2")
	run(t, two)
	if err := two.Undo(t.Context(), one.Items[3]); err != nil {
		t.Fatal(err)
	}
	undone := tree(t, two)
	if undone["providers.yaml"] != "-rw------- uses all of 1" {
		t.Errorf("%v", undone)
	}
	if r, err := two.readRecord(); err != nil || !r.Restart {
		t.Errorf("no restart is due: %+v, %v", r, err)
	}
	if err := two.Restarted(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := two.Run(t.Context()); !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), "etc/providers.yaml") {
			t.Errorf("again: %v", err)
		}
	}
	if diff := cmp.Diff(undone, tree(t, two)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	run(t, plan(filepath.Dir(one.BinDir), "3")) // something else
	two.Force = true
	run(t, two)
	two.Force = false
	run(t, two)
}

// What is not ours stays, and then nothing else is replaced either.
func TestForeignFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(p Plan) error
		want  string
	}{
		"another program": {func(p Plan) error { return os.WriteFile(filepath.Join(p.BinDir, "provider"), []byte("theirs"), 0o600) }, "bin/provider: it is not what was installed here"},
		"a changed file": {func(p Plan) error {
			return os.WriteFile(filepath.Join(p.ConfigDir, "cloud.conf"), []byte("by hand"), 0o600)
		}, "etc/cloud.conf: it is not what was installed here"},
		"a link":            {func(p Plan) error { return relink(p, "provider", "/bin/true") }, "bin/provider: it is not what was installed here"},
		"another link":      {func(p Plan) error { return relink(p, "provider-ecr", "/bin/true") }, "bin/provider-ecr: it is not what was installed here"},
		"no record":         {func(p Plan) error { return os.Remove(p.recordFile()) }, "it is not what was installed here"},
		"a damaged record":  {func(p Plan) error { return os.WriteFile(p.recordFile(), []byte("{"), 0o600) }, "cannot be read"},
		"a directory":       {func(p Plan) error { return redir(p, "cloud.conf") }, "cloud.conf is no file"},
		"a writable folder": {func(p Plan) error { return os.Chmod(p.BinDir, 0o777) }, "can be written to by others than its owner"}, //nolint:gosec // the mistake
	} {
		t.Run(name, func(t *testing.T) {
			one := plan(t.TempDir(), "1")
			run(t, one)
			two := plan(filepath.Dir(one.BinDir), "2")
			if err := tt.spoil(one); err != nil {
				t.Fatal(err)
			}
			if name == "a directory" {
				if _, err := two.Run(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				return
			}
			before := tree(t, one)
			_, err := two.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if diff := cmp.Diff(before, tree(t, one)); diff != "" {
				t.Errorf("something was replaced (-before +after):\n%s", diff)
			}
			if !errors.Is(err, errForeign) {
				return
			}
			two.Force = true
			run(t, two)
			if got := tree(t, two); got["cloud.conf"] != "-rw------- secret of 2" || !strings.Contains(got["provider"], "echo 2") {
				t.Errorf("with force: %v", got)
			}
		})
	}
}

func relink(p Plan, name, target string) error {
	path := filepath.Join(p.BinDir, name)
	return errors.Join(os.Remove(path), os.Symlink(target, path))
}

func redir(p Plan, name string) error {
	path := filepath.Join(p.ConfigDir, name)
	return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
}

// A file that is there already with the same content is taken over.
func TestAdopt(t *testing.T) {
	p := plan(t.TempDir(), "1")
	run(t, p)
	if err := os.Remove(p.recordFile()); err != nil {
		t.Fatal(err)
	}
	if r := run(t, p); len(r.Changed) != 0 {
		t.Errorf("changed %v", r.Changed)
	}
	run(t, plan(filepath.Dir(p.BinDir), "2")) // which it may replace now
}

// A program that does not pass leaves the old one, and nothing after it is touched.
func TestCheckFails(t *testing.T) {
	one := plan(t.TempDir(), "1")
	run(t, one)
	before := tree(t, one)
	two := plan(filepath.Dir(one.BinDir), "2")
	two.Items[0].Check = func(_ context.Context, file string) error {
		if filepath.Dir(file) != two.BinDir {
			t.Errorf("%s is checked in another directory", file)
		}
		return errors.New("it does not run")
	}
	_, err := two.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "bin/provider was not replaced: it does not run") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, tree(t, one)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	run(t, one) // nothing is foreign now
}

// Only one runs at a time.
func TestLock(t *testing.T) {
	p := plan(t.TempDir(), "1")
	p.Items[0].Check = func(ctx context.Context, _ string) error {
		if _, err := plan(filepath.Dir(p.BinDir), "1").Run(ctx); err == nil || !strings.Contains(err.Error(), "another installation into") {
			t.Errorf("a second one: %v", err)
		}
		return nil
	}
	run(t, p)
}

// Nor when it has only one of the directories in common with the first.
func TestLockOfEachDirectory(t *testing.T) {
	p := plan(t.TempDir(), "1")
	p.Items[0].Check = func(ctx context.Context, _ string) error {
		other := plan(t.TempDir(), "1")
		for name, second := range map[string]Plan{
			"bin": {BinDir: p.BinDir, ConfigDir: other.ConfigDir, Items: other.Items}, "etc": {BinDir: other.BinDir, ConfigDir: p.ConfigDir, Items: other.Items},
		} {
			if _, err := second.Run(ctx); err == nil || !strings.Contains(err.Error(), name+" is under way") {
				t.Errorf("a second one with the same %s: %v", name, err)
			}
		}
		return nil
	}
	run(t, p)
}

// One directory under two names is told as what it is.
func TestSameDirectory(t *testing.T) {
	p := plan(t.TempDir(), "1")
	if err := errors.Join(os.Mkdir(p.BinDir, 0o755), os.Symlink("bin", p.ConfigDir)); err != nil { //nolint:gosec // as a directory of programs is
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "are to be in the same directory") {
		t.Errorf("got %v", err)
	}
}

// A file of the right content that belongs to another user, who could change it at any time, is replaced,
// and a directory of such a user is refused.
func TestOwners(t *testing.T) {
	p := plan(t.TempDir(), "1")
	run(t, p)
	theirs := "provider"
	p.owner = func(info fs.FileInfo) int {
		if info.Name() == theirs {
			return os.Geteuid() + 4711
		}
		return os.Geteuid()
	}
	if r := run(t, p); len(r.Changed) != 1 || r.Changed[0] != filepath.Join(p.BinDir, "provider") {
		t.Errorf("changed %v, want the program", r.Changed)
	}
	for _, theirs = range []string{"bin", "etc"} {
		if _, err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "/"+theirs+" belongs to the user") {
			t.Errorf("a directory of another user: %v", err)
		}
	}
}

// crashAt, in the environment, makes TestCrash's process kill itself at that step.
const crashAt = "ISTHMUS_TEST_CRASH"

// TestCrash kills an upgrade at every step: each file is then the old or the new one, the
// configuration never names what is not there, and the next run ends what was begun.
func TestCrash(t *testing.T) {
	if at := os.Getenv(crashAt); at != "" {
		left, err := strconv.Atoi(at)
		if err != nil {
			t.Fatal(err)
		}
		p := plan(os.Getenv("ISTHMUS_TEST_DIR"), "2")
		p.step = func() {
			if left--; left == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
		if _, err := p.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, fresh := range []bool{true, false} {
		for at := 1; ; at++ {
			dir := t.TempDir()
			one, two := plan(dir, "1"), plan(dir, "2")
			if !fresh {
				run(t, one)
			}
			old := tree(t, one)
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrash$")
			cmd.Env = append(os.Environ(), crashAt+"="+strconv.Itoa(at), "ISTHMUS_TEST_DIR="+dir)
			err := cmd.Run()
			if err == nil {
				if at < 15 {
					t.Errorf("only %d steps: this test would check little", at)
				}
				break
			}
			half := tree(t, two)
			onlyConfigIsRead(t, one.ConfigDir, at)
			maps.DeleteFunc(half, func(name, _ string) bool { return strings.HasPrefix(name, tempPrefix) })
			run(t, two)
			now := tree(t, two)
			for name, content := range half {
				if content != old[name] && content != now[name] {
					t.Errorf("killed at step %d: %s is %q", at, name, content)
				}
			}
			if half["providers.yaml"] == now["providers.yaml"] && !maps.Equal(half, now) {
				t.Errorf("killed at step %d: the configuration is new, and what it names is not: %v", at, half)
			}
			if len(now) != 4 || !strings.Contains(now["providers.yaml"], "of 2") {
				t.Errorf("after step %d and another run: %v", at, slices.Sorted(maps.Keys(now)))
			}
		}
	}
}

// onlyConfigIsRead: of what is in the directory, a kubelet that is pointed to all of it (instead of to the
// file) reads the configuration alone, whatever a killed run has left.
func onlyConfigIsRead(t *testing.T, dir string, step int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(e.Name())) && e.Name() != "providers.yaml" {
			t.Errorf("killed at step %d: the kubelet would read %s", step, e.Name())
		}
	}
}
