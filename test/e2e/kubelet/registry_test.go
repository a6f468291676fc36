//go:build e2e

package kubelet

import (
	"archive/tar"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Who may push to the registries, and who may pull from the one with htpasswd.
const (
	owner, ownerPassword   = "owner", "of-the-owner"
	puller, pullerPassword = "puller", "of-the-puller"
)

// htpasswd are the two with their passwords, hashed (bcrypt, the only hash that docker-registry takes).
const htpasswd = owner + ":$2a$05$Q4d/B1wI6WFAa7q1S6LH0umjYYv63pM8XKqaNRHbGjABqruWTWT0a\n" +
	puller + ":$2a$05$PdYriIeA.rol5HSUdVmSzeWsXaZ52I1NOG8fQId354VtbMyOlb.pi\n"

// registry is a running docker-registry.
type registry struct {
	*process
	host      string
	transport http.RoundTripper
}

// startRegistry starts Debian's docker-registry with TLS. auth is the section of its configuration.
func startRegistry(t *testing.T, title, host, auth string, ca *authority) *registry {
	t.Helper()
	config := write(t, title+"/config.yml", fmt.Sprintf(`version: 0.1
storage:
  filesystem: {rootdirectory: %s/%s/data}
http:
  addr: %s
  tls: {certificate: %s, key: %s}
auth: %s
`, state, title, host, ca.certFile, ca.keyFile, auth))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.pool}}
	r := &registry{process: start(t, title, "docker-registry", "serve", config), host: host, transport: transport}
	client := &http.Client{Transport: transport}
	r.ready(t, func() error {
		resp, err := client.Get("https://" + host + "/v2/")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized {
				t.Fatalf("%s lets anybody in: %s", title, resp.Status)
			}
		}
		return err
	})
	t.Cleanup(transport.CloseIdleConnections)
	return r
}

// push makes an image of pause that is like no other and pushes it as the owner. It checks
// that nobody gets it without a login.
func (r *registry) push(t *testing.T, repository string) (image string) {
	t.Helper()
	image = r.host + "/" + repository
	ref, err := name.ParseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	with := []remote.Option{remote.WithTransport(r.transport), remote.WithContext(t.Context())}
	if err := remote.Write(ref, makeImage(t, image), append(with, remote.WithAuth(&authn.Basic{Username: owner, Password: ownerPassword}))...); err != nil {
		t.Fatalf("push %s: %v", image, err)
	}
	if _, err := remote.Image(ref, with...); err == nil {
		t.Fatalf("anybody gets %s: the test shows nothing", image)
	}
	return image
}

// pulled says whether a container runtime got an image of the repository, as the registry's log has it.
func (r *registry) pulled(t *testing.T, repository string) bool {
	t.Helper()
	for line := range strings.Lines(r.output(t)) {
		if strings.Contains(line, `msg="response completed"`) && strings.Contains(line, "/v2/"+repository+"/manifests/") &&
			strings.Contains(line, "useragent=\"containerd/") && strings.Contains(line, "http.response.status=200") {
			return true
		}
	}
	return false
}

// makeImage makes an image with pause and a file that is content.
func makeImage(t *testing.T, content string) v1.Image {
	t.Helper()
	return makeImageOf(t, "pause", content)
}

// makeImageOf makes an image with a program of ours and a file that is content.
func makeImageOf(t *testing.T, file, content string) v1.Image {
	t.Helper()
	binary, err := os.ReadFile(program(file))
	if err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for name, data := range map[string][]byte{file: binary, "name": []byte(content)} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Entrypoint = "linux", runtime.GOARCH, []string{"/" + file}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	return image
}
