package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// The states of a Server, in their order.
const (
	stateNew int32 = iota
	stateServing
	stateEnding
)

var (
	_ manager.Runnable               = (*Server)(nil)
	_ manager.LeaderElectionRunnable = (*Server)(nil)
)

// Server serves admission webhooks. Register everything before Start.
type Server struct {
	opts    Options
	metrics *metrics
	state   atomic.Int32

	mu    sync.Mutex
	hooks map[string]*hook
	addr  net.Addr
	// badPaths are the registrations that Start refuses.
	badPaths []error
}

// New checks o, so that what is wrong with it is known before anything starts. With Port 0
// it returns a Server that serves nothing.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{opts: o, hooks: map[string]*hook{}}
	if !o.Enabled() {
		return s, nil
	}
	if o.Certs == nil {
		return nil, errors.New("webhook server: no certificate source")
	}
	var err error
	if s.metrics, err = newMetrics(o.Metrics, o.Certs.NotAfter); err != nil {
		return nil, fmt.Errorf("webhook server: %w", err)
	}
	return s, nil
}

// Register serves h at path. h must heed its context, whose deadline is the API server's
// less what it takes to answer. A path that is taken or not absolute makes Start fail.
func (s *Server) Register(path string, h admission.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.HasPrefix(path, "/") || s.hooks[path] != nil || slices.Contains([]string{"/", livezPath, readyzPath}, path) {
		s.badPaths = append(s.badPaths, fmt.Errorf("webhook server: path %q is taken or not absolute", path))
		return
	}
	s.hooks[path] = &hook{path: path, handler: h, opts: s.opts, metrics: s.metrics}
}

// NeedLeaderElection is false: every replica serves.
func (*Server) NeedLeaderElection() bool { return false }

// CABundle returns the certificates that a webhook configuration's caBundle needs; empty
// when the certificate source knows no CA or the server is off.
func (s *Server) CABundle() []byte {
	if s.opts.Certs == nil {
		return nil
	}
	return s.opts.Certs.CABundle()
}

// Addr returns the address it listens on; nil before Start.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Start serves until ctx ends, then drains: readiness goes, requests are accepted for
// ShutdownDelay more, and those in flight may finish within DrainTimeout. It returns at
// once, without binding the port, when the server is off or nothing is registered.
func (s *Server) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithName("webhook-server")
	if err := s.registrationError(); err != nil {
		return err
	}
	if !s.serves() {
		logger.Info("Webhooks are not served", "securePort", s.opts.Port, "registered", len(s.paths()))
		return nil
	}
	ctx = klog.NewContext(ctx, logger)
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	srv := s.httpServer(ctx)
	g.Go(func() error { return s.opts.Certs.Run(gctx) })
	g.Go(func() error {
		if err := srv.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("webhook server: serve on %s: %w", listener.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		<-gctx.Done()
		s.drain(context.WithoutCancel(ctx), srv)
		return nil
	})
	s.state.CompareAndSwap(stateNew, stateServing)
	logger.Info("Serving webhooks", "address", listener.Addr().String(), "paths", s.paths())
	return g.Wait()
}

// Ready is a healthz.Checker: nil when requests are served with a valid certificate and
// Options.Ready agrees, or when there is nothing to serve.
func (s *Server) Ready(r *http.Request) error {
	if !s.serves() {
		return nil
	}
	switch s.state.Load() {
	case stateNew:
		return errors.New("webhook server: not started yet")
	case stateEnding:
		return errors.New("webhook server: shutting down")
	}
	if err := s.opts.Certs.Err(); err != nil {
		return fmt.Errorf("webhook server: %w", err)
	}
	if s.opts.Ready != nil {
		if err := s.opts.Ready(r.Context()); err != nil {
			return fmt.Errorf("webhook server: cloud is not ready: %w", err)
		}
	}
	return nil
}

func (s *Server) serves() bool { return s.opts.Enabled() && len(s.paths()) > 0 }

func (s *Server) registrationError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.badPaths...)
}

func (s *Server) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	paths := make([]string, 0, len(s.hooks))
	for p := range s.hooks {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	listener := s.opts.Listener
	if listener == nil {
		address := net.JoinHostPort(s.opts.BindAddress, strconv.Itoa(s.opts.Port))
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err != nil {
			return nil, fmt.Errorf("webhook server: %w; choose another --webhook-bind-address or --webhook-secure-port", err)
		}
	}
	s.mu.Lock()
	s.addr = listener.Addr()
	s.mu.Unlock()
	return listener, nil
}

func (s *Server) httpServer(ctx context.Context) *http.Server {
	minVersion, _ := tlsVersion(s.opts.MinTLSVersion) // Validate has seen it
	return &http.Server{
		Handler: s.mux(),
		// Requests in flight outlive ctx while the server drains.
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		TLSConfig:         &tls.Config{MinVersion: minVersion, GetCertificate: s.opts.Certs.GetCertificate, NextProtos: []string{"h2", "http/1.1"}},
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          stdlog.New(errorLog{klog.FromContext(ctx)}, "", 0),
	}
}

// drain ends srv as Start promises.
func (s *Server) drain(ctx context.Context, srv *http.Server) {
	logger := klog.FromContext(ctx)
	s.state.Store(stateEnding)
	logger.Info("Draining webhooks", "delay", s.opts.ShutdownDelay, "timeout", s.opts.DrainTimeout)
	if s.opts.ShutdownDelay > 0 {
		<-time.After(s.opts.ShutdownDelay)
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.DrainTimeout)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		logger.Error(err, "Webhook requests were cut off: they did not finish in time", "timeout", s.opts.DrainTimeout)
		_ = srv.Close() // ends the contexts of what is left; its error is the listener's, closed already
	}
}

// errorLog takes net/http's own complaints: mostly clients that do not trust the certificate.
type errorLog struct{ logger klog.Logger }

var _ io.Writer = errorLog{}

func (l errorLog) Write(p []byte) (int, error) {
	l.logger.V(2).Info("Webhook connection failed", "reason", strings.TrimSpace(string(p)))
	return len(p), nil
}
