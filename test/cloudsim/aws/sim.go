package aws

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Options configures a simulator. The zero value is a good one.
type Options struct {
	// TokenLifetime is how long a registry token lives, 12 hours by default as with ECR.
	TokenLifetime time.Duration
	// CredentialsLifetime is how long temporary credentials live, 1 hour by default.
	CredentialsLifetime time.Duration
}

// Sim is a running simulator. All methods may be called concurrently.
type Sim struct {
	opts     Options
	url      string
	dir      string
	caFile   string
	listener net.Listener
	http     *http.Server // of what comes directly
	tunnels  *tunnels     // of what comes through the proxy
	ctx      context.Context
	stop     context.CancelFunc
	serving  sync.WaitGroup
	closed   sync.Once

	caKey  *ecdsa.PrivateKey
	caCert *x509.Certificate

	obs observer // has its own lock

	mu       sync.Mutex // guards all below
	iam      iamState
	registry map[string]*registryToken // by password
	metadata metadataState
}

// Start starts a simulator without users and roles.
func Start(opts Options) (*Sim, error) {
	if opts.TokenLifetime == 0 {
		opts.TokenLifetime = 12 * time.Hour
	}
	if opts.CredentialsLifetime == 0 {
		opts.CredentialsLifetime = time.Hour
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Sim{opts: opts, ctx: ctx, stop: stop, registry: map[string]*registryToken{}, metadata: newMetadata()}
	if err := s.setUp(); err != nil {
		stop()
		return nil, errors.Join(err, s.removeFiles())
	}
	s.http = s.server(http.HandlerFunc(s.direct))
	s.tunnels = newTunnels(s.listener.Addr())
	inner := s.server(http.HandlerFunc(s.tunneled))
	s.serve(s.http, s.listener)
	s.serve(inner, s.tunnels)
	return s, nil
}

func (s *Sim) setUp() error {
	var err error
	if s.dir, err = os.MkdirTemp("", "isthmus-awssim-"); err != nil {
		return fmt.Errorf("a folder for the simulated AWS: %w", err)
	}
	if err := s.makeCA(filepath.Join(s.dir, "ca.pem")); err != nil {
		return err
	}
	if s.iam, err = newIAM(); err != nil {
		return err
	}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil { //nolint:noctx // listening on a loopback address does not wait
		return fmt.Errorf("listen for the simulated AWS: %w", err)
	}
	s.url = "http://" + s.listener.Addr().String()
	return nil
}

func (s *Sim) server(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 30 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
}

func (s *Sim) serve(server *http.Server, on net.Listener) {
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		context.AfterFunc(s.ctx, func() { _ = server.Close() })
		_ = server.Serve(on) // ends at Close with ErrServerClosed
	}()
}

// Close ends the simulator. It may be called more than once.
func (s *Sim) Close() {
	s.closed.Do(func() {
		s.stop()
		_ = s.http.Close()
		_ = s.tunnels.Close()
		s.serving.Wait()
		s.obs.inFlight.Wait()
		_ = s.removeFiles()
	})
}

func (s *Sim) removeFiles() error {
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// URL is where the services can be spoken to directly, without TLS.
func (s *Sim) URL() string { return s.url }

// CAFile is the file with the CA that vouches for AWS' names. It is removed by Close.
func (s *Sim) CAFile() string { return s.caFile }

// Env are environment variables that make a process take this simulator for AWS. The instance
// metadata service is in it; nothing else gives the process credentials.
func (s *Sim) Env() []string {
	return []string{
		"HTTPS_PROXY=" + s.url, "HTTP_PROXY=" + s.url, "NO_PROXY=", "SSL_CERT_FILE=" + s.caFile,
		"AWS_EC2_METADATA_SERVICE_ENDPOINT=" + s.url,
	}
}
