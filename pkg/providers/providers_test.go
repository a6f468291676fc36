package providers

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func TestNamed(t *testing.T) {
	for name := range All() {
		if f, err := Named(name); f == nil || err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := Named("openstak")
	if err == nil || !strings.Contains(err.Error(), `unknown cloud provider "openstak"`) || !strings.Contains(err.Error(), "openstack") {
		t.Errorf("unknown name: %v", err)
	}
}

// Every cloud fails on a missing and on a broken file with an error that names it, and on
// no file without a panic.
func TestFactoriesOnBadFiles(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(broken, []byte("[Global\nauth-url"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, factory := range All() {
		for _, file := range []string{broken, filepath.Join(t.TempDir(), "missing.conf")} {
			p, _, err := factory(context.Background(), file, cloud.Options{})
			if p != nil || err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("%s with %s: %v, %v; want an error that names the file", name, file, p, err)
			}
		}
		p, _, err := factory(context.Background(), "", cloud.Options{})
		if (p == nil) == (err == nil) {
			t.Errorf("%s without a file: %v, %v", name, p, err)
		}
	}
}
