// Package envtest tests how `make` comes to the control plane's binaries: downloaded, or else built.
package envtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// checkout is a copy of what make reads, so that it fills no bin/ but its own.
func checkout(t *testing.T) string {
	t.Helper()
	dir, root := t.TempDir(), filepath.Join("..", "..")
	for _, file := range []string{
		"Makefile", "hack/progress.sh", "hack/envtest/envtest.sh", "hack/tools/setup-envtest/go.mod", "hack/tools/setup-envtest/go.sum",
		"hack/tools/etcd/go.mod", "hack/tools/etcd/go.sum", "hack/tools/kubernetes/go.mod", "hack/tools/kubernetes/go.sum",
	} {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o755); err != nil { //nolint:gosec // scripts among them
			t.Fatal(err)
		}
	}
	// In place of a compiler of minutes: what is built says so. All else is Go's, with what it tells on a new machine.
	builds := "#!/bin/sh\n[ \"$1\" != tool ] || echo 'go: downloading example.org/tool v1.0.0' >&2\n" +
		"[ \"$1\" = build ] || exec go \"$@\"\nwhile [ \"$1\" != -o ]; do shift; done\necho built > \"$2\"\n"
	if err := os.WriteFile(filepath.Join(dir, "go-builds"), []byte(builds), 0o755); err != nil { //nolint:gosec // a script
		t.Fatal(err)
	}
	return dir
}

// run makes the three binaries and returns what make printed, and what is in them.
func run(t *testing.T, dir, index string, args ...string) (printed string, binaries [3]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"--no-print-directory", "GO=" + filepath.Join(dir, "go-builds"),
		"ENVTEST_INDEX=" + index, "bin/etcd", "bin/kube-apiserver", "bin/kubectl"}, args...)...) //nolint:gosec // our own Makefile
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "MAKEFLAGS=", "KUBEBUILDER_ASSETS=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		data, err := os.ReadFile(filepath.Join(dir, "bin", name))
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		binaries[i] = strings.TrimSpace(string(data))
	}
	return string(out), binaries
}

func version(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^K8S_VERSION := (v\S+)`).FindStringSubmatch(string(data))[1]
}

// releases is a server with an index of one version, and counts what is asked for.
type releases struct {
	*httptest.Server
	index, archives atomic.Int32
}

func serve(t *testing.T, version, checksum string) *releases {
	t.Helper()
	archive := archive(t)
	if checksum == "" {
		checksum = fmt.Sprintf("%x", sha512.Sum512(archive))
	}
	r, mux := &releases{}, http.NewServeMux()
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.Close)
	name := fmt.Sprintf("envtest-%s-%s-%s.tar.gz", version, runtime.GOOS, runtime.GOARCH)
	mux.HandleFunc("GET /index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		r.index.Add(1)
		_, _ = fmt.Fprintf(w, "releases:\n  %s:\n    %s:\n      hash: %s\n      selfLink: %s/%[2]s\n", version, name, checksum, r.URL)
	})
	mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) {
		r.archives.Add(1)
		_, _ = w.Write(archive)
	})
	return r
}

func archive(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		content := "downloaded " + name
		if err := w.WriteHeader(&tar.Header{Name: "controller-tools/envtest/" + name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestDownload: one archive for all three, also for two at a time, and nothing when they are there.
func TestDownload(t *testing.T) {
	t.Parallel()
	dir, server := checkout(t), serve(t, version(t), "")
	printed, got := run(t, dir, server.URL+"/index.yaml", "-j2")
	if want := [3]string{"downloaded etcd", "downloaded kube-apiserver", "downloaded kubectl"}; got != want {
		t.Errorf("got %q\n%s", got, printed)
	}
	if strings.Contains(printed, "building") || server.archives.Load() != 1 {
		t.Errorf("%d archives were downloaded:\n%s", server.archives.Load(), printed)
	}
	asked := server.index.Load()
	if printed, _ := run(t, dir, server.URL+"/index.yaml"); server.index.Load() != asked || server.archives.Load() != 1 || strings.Contains(printed, "downloaded") {
		t.Errorf("asked again though all are there:\n%s", printed)
	}
	if err := os.Remove(filepath.Join(dir, "bin", "etcd")); err != nil {
		t.Fatal(err)
	}
	if _, got := run(t, dir, server.URL+"/index.yaml"); got[0] != "downloaded etcd" || server.archives.Load() != 1 {
		t.Errorf("%q after %d downloads", got, server.archives.Load())
	}
	cmd := exec.CommandContext(t.Context(), "make", "clean")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestBuildsInstead: whatever keeps them from being downloaded is one line, asked for once, and they are built.
func TestBuildsInstead(t *testing.T) {
	t.Parallel()
	wrong := serve(t, version(t), strings.Repeat("f", 128))
	older := serve(t, "v1.2.3", "")
	for _, tt := range []struct{ name, index, want string }{
		{"a wrong checksum", wrong.URL + "/index.yaml", "checksum mismatch"},
		{"an index without the version", older.URL + "/index.yaml", "has no envtest-" + version(t)},
		{"no such index", older.URL + "/other.yaml", "404"},
		{"no network", "http://" + closed(t) + "/index.yaml", closedSays},
		{"no such host", "http://index.invalid/index.yaml", "index.invalid"},
		{"a server that never answers", "http://" + silent(t) + "/index.yaml", "http://"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			printed, got := run(t, checkout(t), tt.index, "-j2")
			if want := [3]string{"built", "built", "built"}; got != want {
				t.Errorf("got %q\n%s", got, printed)
			}
			var said []string
			for line := range strings.Lines(printed) {
				if !strings.HasPrefix(line, "==> building ") && !strings.HasPrefix(line, "    … ") { // the latter each 15 seconds
					said = append(said, line)
				}
			}
			if len(said) != 1 || !strings.Contains(said[0], "not downloaded: ") || !strings.Contains(said[0], tt.want) {
				t.Errorf("%q is not one line with %q", said, tt.want)
			}
		})
	}
	t.Cleanup(func() {
		if wrong.archives.Load() != 1 || older.index.Load() != 1 || older.archives.Load() != 0 {
			t.Errorf("wrong checksum: %d archives; without the version: index %d, archives %d", wrong.archives.Load(), older.index.Load(), older.archives.Load())
		}
	})
}

const closedSays = "onnect" // curl and wget say it in their own words

// closed is an address at which nobody listens.
func closed(t *testing.T) string {
	t.Helper()
	l := listen(t)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// silent is an address that takes connections and never says anything.
func silent(t *testing.T) string {
	t.Helper()
	l := listen(t)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
