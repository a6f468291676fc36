package cloudauth_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	a, b, link := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "link")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(a, []byte("one"), 0o600))
	must(os.WriteFile(b, []byte("two"), 0o600))
	must(os.Symlink(a, link))

	steps := []struct {
		name    string
		do      func() error
		changes bool
	}{
		{"nothing", func() error { return nil }, false},
		{"same content written again", func() error { return os.WriteFile(a, []byte("one"), 0o600) }, false},
		{"link swapped, as a mounted Secret is", func() error {
			if err := os.Symlink(b, link+".new"); err != nil {
				return err
			}
			return os.Rename(link+".new", link)
		}, true},
		{"same length, other content", func() error { return os.WriteFile(b, []byte("owt"), 0o600) }, true},
		{"gone", func() error { return os.Remove(b) }, true},
		{"still gone", func() error { return nil }, false},
		{"empty", func() error { return os.WriteFile(b, nil, 0o600) }, true},
	}
	before := cloudauth.Fingerprint(a, link)
	for _, s := range steps {
		must(s.do())
		after := cloudauth.Fingerprint(a, link)
		if changed := after != before; changed != s.changes {
			t.Errorf("%s: changed = %t, want %t", s.name, changed, s.changes)
		}
		before = after
	}
}
