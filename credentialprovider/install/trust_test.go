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

// Others may write to a directory with the sticky bit, such as /tmp, on the way to what is not theirs; but in the
// kubelet's own directories all that is there counts.
func TestFlawsOfModes(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	way, file := filepath.Join(dir, "way"), filepath.Join(dir, "way", "file")
	if err := errors.Join(os.Mkdir(way, 0o755), os.WriteFile(file, nil, 0o600)); err != nil { //nolint:gosec // as in /etc
		t.Fatal(err)
	}
	for _, tt := range []struct {
		dir, file        fs.FileMode
		ofFile, ofTheWay string // what is not safe of a path
	}{
		{0o755, 0o644, "", ""},
		{0o775, 0o600, way, way},
		{0o757, 0o600, way, way},
		{fs.ModeSticky | 0o777, 0o600, "", way},
		{0o755, 0o620, file, ""},
		{0o755, 0o602, file, ""},
	} {
		if err := errors.Join(os.Chmod(way, tt.dir), os.Chmod(file, tt.file)); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{file: tt.ofFile, way: tt.ofTheWay} {
			found := Flaws(path)
			if (want == "") != (len(found) == 0) || want != "" && found[0].Path != want {
				t.Errorf("%v, %v: %s: %+v, want %q", tt.dir, tt.file, path, found, want)
			}
		}
	}
}

// What all may write to is no flaw where it is no file whose content counts.
func TestFlawsOfDevices(t *testing.T) {
	if found := Flaws(os.DevNull); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}
