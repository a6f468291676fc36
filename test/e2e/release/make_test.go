//go:build e2e

package release

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// What is built here says that it is this version, of this commit, made at this time.
const (
	version  = "v1.2.3-rc.1"
	revision = "0123456789abcdef0123456789abcdef01234567"
	created  = 1700000000
)

// repository is the root of the repository.
const repository = "../../.."

// makeIn runs make in dir; the last of arguments that contradict each other counts.
func makeIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	args = append([]string{"VERSION=" + version, "REVISION=" + revision, "SOURCE_DATE_EPOCH=" + strconv.Itoa(created), "TAGS="}, args...)
	cmd := exec.CommandContext(t.Context(), "make", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	run(t, cmd)
}

// run returns what cmd prints, which goes into the log: the transcript.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	t.Logf("%s\n%s", strings.Join(cmd.Args, " "), out)
	return string(out)
}

// copyTree returns a copy of what is in the repository, committed or not, that only its owner may
// read, and that has no history.
func copyTree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "some", "where", "else")
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = repository
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		from, to := filepath.Join(repository, string(name)), filepath.Join(dir, string(name))
		info, err := os.Lstat(from)
		if os.IsNotExist(err) { // removed, and not yet committed
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if !info.Mode().IsRegular() {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		copyFile(t, from, to, info.Mode().Perm()&0o700)
	}
	return dir
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
