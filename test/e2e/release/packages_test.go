//go:build e2e

package release

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// newer is the version that is upgraded to: the release after the candidate.
const newer = "v1.2.3"

// packager is the program that installs packages of one kind, into a folder.
type packager struct {
	suffix                      string
	install, upgrade, downgrade []string
	remove, purge               []string
	version, owner              []string
	// edited is what becomes of an edited file of the configuration when the package is removed.
	edited string
}

const packageName = "isthmus-credential-provider"

const (
	program  = "/opt/isthmus/credential-providers/isthmus-credential-provider"
	settings = "/etc/isthmus/credential-provider/credential-provider.yaml"
)

// Debian's rpm wants to be told that packages are what it is for.
func packagers(root string) map[string]packager {
	dpkg := func(args ...string) []string {
		return append([]string{"dpkg", "--root=" + root, "--force-not-root", "--log=/dev/null"}, args...)
	}
	rpm := func(args ...string) []string {
		return append([]string{"rpm", "--root", root, "--force-debian"}, args...)
	}
	return map[string]packager{
		"deb": {
			suffix: ".deb", install: dpkg("--install"), upgrade: dpkg("--install"), downgrade: dpkg("--install"), remove: dpkg("--remove", packageName), purge: dpkg("--purge", packageName),
			version: []string{"dpkg-query", "--admindir=" + root + "/var/lib/dpkg", "--show", "--showformat=${Version}", packageName},
			owner:   []string{"dpkg-query", "--admindir=" + root + "/var/lib/dpkg", "--search", program}, edited: settings,
		},
		"rpm": {
			suffix: ".rpm", install: rpm("--install"), upgrade: rpm("--upgrade"), downgrade: rpm("--upgrade", "--oldpackage"), remove: rpm("--erase", packageName),
			version: rpm("--query", "--queryformat", "%{VERSION}", packageName),
			owner:   rpm("--query", "--file", program), edited: settings + ".rpmsave",
		},
	}
}

// Packages install, give way to the next version and to the one before, and go, and an administrator's configuration stays.
func TestPackages(t *testing.T) {
	before, after := t.TempDir(), t.TempDir()
	for dir, v := range map[string]string{before: version, after: newer} {
		makeIn(t, repository, "packages", "PLATFORMS=linux/"+runtime.GOARCH, "VERSION="+v)
		for _, file := range glob(t, filepath.Join(repository, "bin/packages/*")) {
			copyFile(t, file, filepath.Join(dir, filepath.Base(file)), 0o600)
		}
	}
	for kind := range packagers("") {
		t.Run(kind, func(t *testing.T) {
			root := t.TempDir()
			if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg"), 0o755); err != nil {
				t.Fatal(err)
			}
			p := packagers(root)[kind]
			do := func(args []string, more ...string) string {
				t.Helper()
				args = append(args[1:len(args):len(args)], more...)
				return run(t, exec.CommandContext(t.Context(), packagers(root)[kind].install[0], args...))
			}
			query := func(args []string) string {
				t.Helper()
				return run(t, exec.CommandContext(t.Context(), args[0], args[1:]...))
			}

			do(p.install, one(t, before, p.suffix))
			installed(t, root, version)
			if got := query(p.version); got != "1.2.3~rc.1" {
				t.Errorf("%s is installed", got)
			}
			if got := query(p.owner); !strings.Contains(got, packageName) {
				t.Errorf("%s is of %s", program, got)
			}
			if got := run(t, exec.CommandContext(t.Context(), root+program, "check", "--kubelet-config="+root+settings, "--bin-dir="+filepath.Dir(root+program))); !strings.Contains(got, "no problem was found") {
				t.Errorf("a kubelet with this configuration: %s", got)
			}
			const own = "# the administrator's\n"
			if err := os.WriteFile(root+settings, []byte(own), 0o600); err != nil {
				t.Fatal(err)
			}

			do(p.upgrade, one(t, after, p.suffix)) // 1.2.3 is later than 1.2.3~rc.1
			installed(t, root, newer)
			do(p.downgrade, one(t, before, p.suffix))
			installed(t, root, version)
			do(p.upgrade, one(t, after, p.suffix))
			if got := query(p.version); got != "1.2.3" {
				t.Errorf("%s is installed after the upgrade", got)
			}
			if got, err := os.ReadFile(root + settings); err != nil || string(got) != own {
				t.Errorf("upgrade and downgrade make of the configuration: %q, %v", got, err)
			}

			do(p.remove)
			for _, gone := range []string{program, "/usr/bin/isthmus-credential-provider", "/usr/share/doc/isthmus-credential-provider", "/opt/isthmus"} {
				if _, err := os.Lstat(root + gone); !os.IsNotExist(err) {
					t.Errorf("%s is left behind: %v", gone, err)
				}
			}
			if got, err := os.ReadFile(root + p.edited); err != nil || string(got) != own {
				t.Errorf("removal makes of the configuration: %q, %v", got, err)
			}
			if p.purge != nil {
				do(p.purge)
				if _, err := os.Lstat(root + "/etc/isthmus"); !os.IsNotExist(err) {
					t.Errorf("/etc/isthmus is left behind when the package is purged: %v", err)
				}
			}
		})
	}

	makeIn(t, repository, "packages", "PLATFORMS=linux/"+runtime.GOARCH, "VERSION="+newer)
	for _, suffix := range []string{".deb", ".rpm"} {
		if digest(t, one(t, after, suffix)) != digest(t, one(t, filepath.Join(repository, "bin/packages"), suffix)) {
			t.Errorf("%s differs when it is made twice", suffix)
		}
	}
}

// installed: the program is there, by a link, too, and says its version.
func installed(t *testing.T, root, version string) {
	t.Helper()
	if got := run(t, exec.CommandContext(t.Context(), root+program, "--version")); !strings.Contains(got, " "+version) {
		t.Errorf("the program is %s", got)
	}
	if target, err := os.Readlink(root + "/usr/bin/isthmus-credential-provider"); err != nil || target != program {
		t.Errorf("the link is to %s: %v", target, err)
	}
	for _, file := range []string{"copyright", "THIRD-PARTY.txt", packageName + ".spdx.json"} {
		if _, err := os.Stat(filepath.Join(root, "usr/share/doc", packageName, file)); err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(root + program)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
}

// one returns the file in dir with the suffix.
func one(t *testing.T, dir, suffix string) string {
	t.Helper()
	files := glob(t, filepath.Join(dir, "*"+suffix))
	if len(files) != 1 {
		t.Fatalf("%s: %q", dir, files)
	}
	return files[0]
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %q, %v", pattern, files, err)
	}
	return files
}

func digest(t *testing.T, file string) [sha256.Size]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(data)
}
