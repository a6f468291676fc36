package cloudauth_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

func TestReadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	for n, want := range map[int]string{0: "", 5: "", cloudauth.MaxFile: "", cloudauth.MaxFile + 1: file + " is longer than 1024 KiB"} {
		content := bytes.Repeat([]byte("x"), n)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := cloudauth.ReadFile(file)
		if want == "" && (err != nil || !bytes.Equal(got, content)) || want != "" && (err == nil || err.Error() != want || got != nil) {
			t.Errorf("%d bytes: %d, %v", n, len(got), err)
		}
	}
	for _, path := range []string{file + "x", filepath.Dir(file)} {
		if _, err := cloudauth.ReadFile(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
