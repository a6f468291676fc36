//go:build e2e && snapshot

package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What make snapshot has left in bin/dist and bin/packages is all that is announced, each file with its
// checksum, and the binaries are for the systems that their archives are named after.
func TestSnapshot(t *testing.T) {
	dist, packages := filepath.Join(repository, "bin/dist"), filepath.Join(repository, "bin/packages")
	sums := checksums(t, filepath.Join(dist, "SHA256SUMS"))
	version := versionOf(t, slices.Sorted(maps.Keys(sums)))
	systems := map[string][]string{
		"cloud-controller-manager":    {"linux_amd64", "linux_arm64", "linux_ppc64le", "linux_s390x"},
		"isthmus-credential-provider": {"linux_amd64", "linux_arm64", "linux_ppc64le", "linux_s390x", "windows_amd64"},
		"isthmus":                     {"darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64"},
	}
	beside := map[string][]string{"isthmus": {
		"completions/_isthmus", "completions/isthmus.bash", "completions/isthmus.fish", "completions/isthmus.ps1",
		"completions/kubectl_complete-isthmus", "man/isthmus-doctor.1", "man/isthmus.1",
	}}
	var want []string
	for name, all := range systems {
		for _, system := range all {
			archive := fmt.Sprintf("%s_%s_%s", name, version, system)
			want = append(want, archive+".spdx.json")
			file, open, suffix := name, tarball, ".tar.gz"
			if strings.HasPrefix(system, "windows") {
				file, open, suffix = name+".exe", zipped, ".zip"
			}
			want = append(want, archive+suffix)
			t.Run(archive, func(t *testing.T) {
				files := open(t, filepath.Join(dist, archive+suffix))
				for _, name := range beside[name] {
					if len(files[name]) == 0 {
						t.Errorf("it has no %s", name)
					}
				}
				maps.DeleteFunc(files, func(path string, _ []byte) bool { return beside[name] != nil && filepath.Dir(path) != "." })
				if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, []string{"LICENSE", "THIRD-PARTY.txt", file}) {
					t.Fatalf("it holds %q", got)
				}
				info, err := buildinfo.Read(bytes.NewReader(files[file]))
				if err != nil {
					t.Fatal(err)
				}
				settings := map[string]string{}
				for _, s := range info.Settings {
					settings[s.Key] = s.Value
				}
				if got := settings["GOOS"] + "_" + settings["GOARCH"]; got != system || settings["CGO_ENABLED"] != "0" {
					t.Errorf("the binary is for %s, with cgo: %s", got, settings["CGO_ENABLED"])
				}
				checkLicenses(t, files["THIRD-PARTY.txt"], files[file])
			})
		}
	}
	for _, suffix := range []string{".deb", ".rpm"} {
		for _, file := range glob(t, filepath.Join(packages, "*"+suffix)) {
			want = append(want, filepath.Base(file))
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(sums))); diff != "" || len(want) != 28+8 {
		t.Errorf("%d files in SHA256SUMS (-want +got):\n%s", len(sums), diff)
	}
	for file, sum := range sums {
		dir := dist
		if strings.HasSuffix(file, ".deb") || strings.HasSuffix(file, ".rpm") {
			dir = packages
		}
		if got := digest(t, filepath.Join(dir, file)); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s has another checksum", file)
		}
	}
}

func checksums(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(data)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	return sums
}

// versionOf returns the version that files are named after.
func versionOf(t *testing.T, files []string) string {
	t.Helper()
	for _, f := range files {
		if v, ok := strings.CutPrefix(f, "cloud-controller-manager_"); ok && strings.HasSuffix(v, "_linux_amd64.tar.gz") {
			return strings.TrimSuffix(v, "_linux_amd64.tar.gz")
		}
	}
	t.Fatalf("no archive among %q", files)
	return ""
}

func tarball(t *testing.T, file string) map[string][]byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		if h.Uname != "root" || h.FileInfo().Mode().Perm()&0o022 != 0 {
			t.Errorf("%s is of %s, with mode %s", h.Name, h.Uname, h.FileInfo().Mode())
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func zipped(t *testing.T, file string) map[string][]byte {
	t.Helper()
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	files := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
	}
	return files
}
