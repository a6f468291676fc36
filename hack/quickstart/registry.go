package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// askPlugin runs the credential provider the way the kubelet does.
func (w *world) askPlugin(ctx context.Context, image string, args ...string) (authn.Authenticator, error) {
	request := fmt.Sprintf(`{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderRequest","image":%q}`, image)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(w.bin, "isthmus-credential-provider"), args...)
	cmd.Env = append(os.Environ(), w.scene.env...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(request), &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("isthmus-credential-provider: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	var response struct {
		Auth map[string]struct{ Username, Password string } `json:"auth"`
	}
	if err := json.Unmarshal(out, &response); err != nil {
		return nil, fmt.Errorf("answer of isthmus-credential-provider: %w", err)
	}
	if len(response.Auth) != 1 {
		return nil, fmt.Errorf("isthmus-credential-provider answered %d credentials for %s, want 1", len(response.Auth), image)
	}
	for _, a := range response.Auth {
		return &authn.Basic{Username: a.Username, Password: a.Password}, nil
	}
	return nil, nil
}

// startRegistry serves a registry on loopback that wants HTTP basic authentication.
func (w *world) startRegistry(ctx context.Context, opens func(user, password string) bool) (host string, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	content := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if u, p, ok := r.BasicAuth(); !ok || !opens(u, p) {
				rw.Header().Set("WWW-Authenticate", `Basic realm="quickstart"`)
				http.Error(rw, "who are you?", http.StatusUnauthorized)
				return
			}
			content.ServeHTTP(rw, r)
		}),
		ReadHeaderTimeout: 5 * time.Second,
	}
	w.serve(server, listener)
	return listener.Addr().String(), nil
}

// push makes a small image, pushes it and returns its digest.
func push(ctx context.Context, ref name.Tag, options ...remote.Option) (string, error) {
	image, err := random.Image(1<<10, 1)
	if err != nil {
		return "", err
	}
	if err := remote.Write(ref, image, append(options, remote.WithContext(ctx))...); err != nil {
		return "", err
	}
	digest, err := image.Digest()
	return digest.String(), err
}
