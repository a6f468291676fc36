package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Registry is a private registry in the cloud's network: Debian's docker-registry, with TLS, which gives
// nothing to anybody without a login.
type Registry struct {
	// Host is its address and port, as in the names of images.
	Host string
	// User and Password are the one login that it takes.
	User, Password string

	env       *environment
	pause     string // archive with the sandbox image, which no registry has
	transport *http.Transport
	cmd       *exec.Cmd
	logFile   string
}

// bcryptOfPassword is the hash of "of-the-puller", the only kind that docker-registry takes.
const bcryptOfPassword = "$2a$05$PdYriIeA.rol5HSUdVmSzeWsXaZ52I1NOG8fQId354VtbMyOlb.pi"

func startRegistry(ctx context.Context, e *environment, ca *authority) (*Registry, error) {
	r := &Registry{Host: gateway.String() + ":5001", User: "puller", Password: "of-the-puller", env: e, pause: filepath.Join(e.dir, "pause.tar")}
	serving, key, err := ca.issue("registry", nil, []string{gateway.String()})
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(e.dir, "registry")
	config := fmt.Sprintf(`version: 0.1
storage:
  filesystem: {rootdirectory: %[1]s/data}
http:
  addr: %[2]s
  tls: {certificate: %[1]s/tls.crt, key: %[1]s/tls.key}
auth:
  htpasswd: {realm: private, path: %[1]s/htpasswd}
`, dir, r.Host)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for file, content := range map[string]string{"config.yml": config, "tls.crt": string(serving), "tls.key": string(key), "htpasswd": r.User + ":" + bcryptOfPassword + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	log, err := e.log("cloud", "docker-registry", 1)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	r.logFile = log.Name()
	r.cmd = exec.Command(e.program("docker-registry"), "serve", filepath.Join(dir, "config.yml")) //nolint:noctx // it lives until close
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the registry: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	r.transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	err = poll(ctx, time.Minute, func(ctx context.Context) error { return r.privateNow(ctx) })
	if err == nil {
		err = r.savePause()
	}
	if err != nil {
		r.close()
		return nil, fmt.Errorf("the registry: %w", err)
	}
	return r, nil
}

// privateNow is nil when the registry answers, and refuses those without a login.
func (r *Registry) privateNow(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.Host+"/v2/", nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: r.transport}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusUnauthorized {
		return fmt.Errorf("it lets anybody in: %s", resp.Status)
	}
	return nil
}

// Push pushes an image as repository, with its tag, and returns its whole name.
func (r *Registry) Push(ctx context.Context, repository string, image v1.Image) (string, error) {
	ref, err := name.ParseReference(r.Host + "/" + repository)
	if err != nil {
		return "", fmt.Errorf("image %s: %w", repository, err)
	}
	login := remote.WithAuth(&authn.Basic{Username: r.User, Password: r.Password})
	if err := remote.Write(ref, image, remote.WithTransport(r.transport), remote.WithContext(ctx), login); err != nil {
		return "", fmt.Errorf("push %s: %w", ref, err)
	}
	return ref.String(), nil
}

// pushProgram makes an image of one program of the sandbox and pushes it.
func (r *Registry) pushProgram(ctx context.Context, repository, program string) (string, error) {
	image, err := imageOf(r.env.program(program))
	if err != nil {
		return "", err
	}
	return r.Push(ctx, repository, image)
}

// savePause writes the archive of the sandbox image, which machines load themselves.
func (r *Registry) savePause() error {
	image, err := imageOf(r.env.program("pause"))
	if err != nil {
		return err
	}
	tag, err := name.NewTag(sandboxImage)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(r.pause, tag, image)
}

// imageOf makes an image of one static program.
func imageOf(program string) (v1.Image, error) {
	binary, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	entry := filepath.Base(program)
	if err := w.WriteHeader(&tar.Header{Name: entry, Mode: 0o755, Size: int64(len(binary))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(binary); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Entrypoint, config.Config.User = "linux", runtime.GOARCH, []string{"/" + entry}, "65532:65532"
	return mutate.ConfigFile(image, config)
}

// Log is what the registry wrote: a line for each request.
func (r *Registry) Log() (string, error) {
	data, err := os.ReadFile(r.logFile)
	return string(data), err
}

func (r *Registry) close() {
	if r.cmd != nil {
		_ = errors.Join(r.cmd.Process.Kill(), r.cmd.Wait()) // killed
	}
}
