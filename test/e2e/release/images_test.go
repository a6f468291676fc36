//go:build e2e

package release

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

var binaries = []string{"cloud-controller-manager", "isthmus-credential-provider"}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// Images have the same digest wherever they are built, and hold what runs as nobody, trusts the
// CAs of the world, and says what it is made of.
func TestImages(t *testing.T) {
	makeIn(t, repository, "images")
	digests := map[string]v1.Hash{}
	for _, name := range binaries {
		index, digest := openLayout(t, repository, name)
		digests[name] = digest
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		var arches []string
		for _, m := range manifest.Manifests {
			arches = append(arches, m.Platform.Architecture)
			img, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(name+"/"+m.Platform.String(), func(t *testing.T) { checkImage(t, img, name, m.Platform.Architecture) })
		}
		if slices.Sort(arches); !slices.Equal(arches, slices.Sorted(maps.Keys(machines))) {
			t.Errorf("%s is for %v", name, arches)
		}
	}

	elsewhere := copyTree(t)
	makeIn(t, elsewhere, "images")
	for _, name := range binaries {
		if _, digest := openLayout(t, elsewhere, name); digest != digests[name] {
			t.Errorf("%s is %s here and %s in a copy of the repository: it is not reproducible", name, digests[name], digest)
		}
	}
}

func openLayout(t *testing.T, dir, name string) (v1.ImageIndex, v1.Hash) {
	t.Helper()
	outer, err := layout.ImageIndexFromPath(filepath.Join(dir, "bin/images", name))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != version {
		t.Fatalf("the layout of %s holds %+v, want one index of the name %s", name, manifest.Manifests, version)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index, manifest.Manifests[0].Digest
}

func checkImage(t *testing.T, img v1.Image, name, arch string) {
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/" + name}) || len(config.Config.Cmd) > 0 {
		t.Errorf("user %q, entry point %q, arguments %q", config.Config.User, config.Config.Entrypoint, config.Config.Cmd)
	}
	if !config.Created.Equal(time.Unix(created, 0)) || config.OS != "linux" || config.Architecture != arch {
		t.Errorf("made at %s for %s/%s", config.Created, config.OS, config.Architecture)
	}
	for label, want := range map[string]string{"title": name, "version": version, "revision": revision, "licenses": "Apache-2.0"} {
		if got := config.Config.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	files := contents(t, img)
	const doc = "usr/share/doc/isthmus/"
	want := []string{name, "etc/ssl/certs/ca-certificates.crt", doc + "LICENSE", doc + "THIRD-PARTY.txt", "usr/share/sbom/" + name + ".spdx.json"}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Fatalf("files (-want +got):\n%s", diff)
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]) || len(pool.Subjects()) < 100 { //nolint:staticcheck // Subjects counts, and this pool is not the system's.
		t.Error("the CA certificates are none, or too few")
	}
	checkBinary(t, files[name], name, arch)
	checkSBOM(t, files["usr/share/sbom/"+name+".spdx.json"], files[name], name)
	checkLicenses(t, files[doc+"THIRD-PARTY.txt"], files[name])
}

// contents returns the image's regular files. All are root's, and only root may write them.
func contents(t *testing.T, img v1.Image) map[string][]byte {
	t.Helper()
	rootfs := mutate.Extract(img)
	defer func() { _ = rootfs.Close() }()
	files := map[string][]byte{}
	for r := tar.NewReader(rootfs); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		mode := fs.FileMode(0o644)
		if h.Typeflag == tar.TypeDir || !strings.Contains(h.Name, "/") {
			mode = 0o755
		}
		if h.Uid != 0 || h.Gid != 0 || h.FileInfo().Mode().Perm() != mode || h.ModTime.Unix() != created {
			t.Errorf("%s is of %d:%d, with mode %s, of %s", h.Name, h.Uid, h.Gid, h.FileInfo().Mode(), h.ModTime)
		}
		switch h.Typeflag {
		case tar.TypeDir:
		case tar.TypeReg:
			if files[h.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s is neither a file nor a folder", h.Name)
		}
	}
}

// checkBinary: it needs nothing but the kernel, is stripped, and says its version.
func checkBinary(t *testing.T, data []byte, name, arch string) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s is linked dynamically", name)
		}
	}
	if f.Machine != machines[arch] || f.Section(".symtab") != nil {
		t.Errorf("%s is for %s; symbols: %v", name, f.Machine, f.Section(".symtab") != nil)
	}
	if arch != runtime.GOARCH {
		return
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), file, "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), " "+version) {
		t.Errorf("--version: %v, %q", err, out)
	}
}

// checkSBOM: it is about this very binary, and lists each module in it, with its licenses, and the CA certificates.
func checkSBOM(t *testing.T, sbom, data []byte, name string) {
	t.Helper()
	var doc struct {
		SPDXVersion string
		Packages    []struct {
			Name, VersionInfo, LicenseConcluded string
			Checksums                           []struct{ ChecksumValue string }
		}
	}
	if err := json.Unmarshal(sbom, &doc); err != nil || doc.SPDXVersion != "SPDX-2.3" || len(doc.Packages) == 0 {
		t.Fatalf("SBOM: %v, version %q, %d packages", err, doc.SPDXVersion, len(doc.Packages))
	}
	digest := sha256.Sum256(data)
	if root := doc.Packages[0]; root.Name != name || root.VersionInfo != version || len(root.Checksums) != 1 || root.Checksums[0].ChecksumValue != hex.EncodeToString(digest[:]) {
		t.Errorf("the SBOM is about %+v", root)
	}
	last := len(doc.Packages) - 1
	if p := doc.Packages[last]; p.Name != "golang.org/x/crypto/x509roots/fallback" || p.LicenseConcluded != "MPL-2.0" {
		t.Errorf("the SBOM has %+v in place of the CA certificates", p)
	}
	var got []string
	for _, p := range doc.Packages[1:last] {
		got = append(got, p.Name+" "+p.VersionInfo)
		if p.LicenseConcluded == "" {
			t.Errorf("%s has no license", p.Name)
		}
	}
	if diff := cmp.Diff(linked(t, data), got); diff != "" {
		t.Errorf("modules (-in the binary +in the SBOM):\n%s", diff)
	}
}

// linked returns the modules that are in a binary, with the standard library.
func linked(t *testing.T, data []byte) []string {
	t.Helper()
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	modules := []string{fmt.Sprintf("stdlib %s", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, d := range info.Deps {
		modules = append(modules, d.Path+" "+d.Version)
	}
	slices.Sort(modules)
	return modules
}

// checkLicenses: the text of a license is there for each module.
func checkLicenses(t *testing.T, text, data []byte) {
	t.Helper()
	for _, m := range linked(t, data) {
		if !strings.Contains(string(text), "\n"+m+", ") {
			t.Errorf("THIRD-PARTY.txt has nothing of %s", m)
		}
	}
}
