package install

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A path is followed as the system follows it: through links, by what they point to and who made them.
func TestFlawsFollowLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.Mkdir(at("real"), 0o755), os.Mkdir(at("theirs"), 0o755), os.Mkdir(at("sub"), 0o755), //nolint:gosec // as in /etc
		os.WriteFile(at("real/file"), nil, 0o600), os.WriteFile(at("theirs/file"), nil, 0o600),
		os.Symlink("real", at("ok")), os.Symlink("../theirs", at("sub/up")), os.Symlink(at("theirs/file"), at("absolute")),
		os.Symlink("real/file", at("link-of-theirs")), os.Symlink("loop", at("loop")),
	); err != nil {
		t.Fatal(err)
	}
	owner := func(info fs.FileInfo) int {
		if strings.Contains(info.Name(), "theirs") {
			return os.Geteuid() + 4711
		}
		return os.Geteuid()
	}
	for path, want := range map[string]string{
		"real/file": "", "ok/file": "", "nowhere/file": "", "loop": "",
		"theirs/file": "theirs", "sub/up/file": "theirs", "absolute": "theirs",
		"link-of-theirs": "link-of-theirs", "theirs/nowhere": "theirs",
	} {
		found := flaws(at(path), owner)
		switch {
		case want == "" && len(found) != 0, want != "" && (len(found) != 1 || found[0].Path != at(want)):
			t.Errorf("%s: %+v, want %q", path, found, want)
		}
	}
	if found := flaws(filepath.Join(dir, "real", "..", "theirs", "file"), owner); len(found) != 1 {
		t.Errorf("with ..: %+v", found)
	}
}
