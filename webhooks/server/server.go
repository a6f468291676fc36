package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

	"github.com/isthmus-cloud/isthmus/pkg/clientca"
	"github.com/isthmus-cloud/isthmus/webhooks/certs"
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
	common
	clients *clients // nil: everyone may ask
	notices *notices
	// hooks are by path; they stay as they are from Start on.
	hooks    map[string]*hook
	requests *shares // of HTTP/2
	crowd    *crowd
	// bad are the registrations that Start refuses.
	bad []error

	state atomic.Int32
	// cloudReady is set once Options.Ready has agreed.
	cloudReady atomic.Bool
	mu         sync.Mutex
	addr       net.Addr
}

// New checks o, so that what is wrong with it is known before anything starts. With Port 0
// it returns a Server that serves nothing.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{common: newCommon(o), hooks: map[string]*hook{}, requests: newShares(maxRequests, reservedRequests), crowd: newCrowd(), notices: newNotices(o.Clock)}
	if !o.Enabled() {
		return s, nil
	}
	if o.Certs == nil {
		return nil, errors.New("webhook server: no certificate source")
	}
	var err error
	if s.metrics, err = newMetrics(o.Metrics, o.Certs.NotAfter, func() time.Time { return certs.FirstExpiry(o.Certs.CABundle()) }); err != nil {
		return nil, fmt.Errorf("webhook server: %w", err)
	}
	if o.ClientCAFile != "" {
		authorities, err := clientca.Open(o.ClientCAFile, o.Clock.Now())
		if err != nil {
			return nil, fmt.Errorf("--webhook-client-ca-file: %w", err)
		}
		s.clients = &clients{authorities: authorities, names: o.ClientNames, metrics: s.metrics, notices: s.notices, clock: o.Clock}
	}
	return s, nil
}

// Register serves h at path; metrics and logs call it name. h must heed its context, whose
// deadline is the API server's less what it takes to answer. A path that is taken or not
// absolute, and a name that is taken, make Start fail.
func (s *Server) Register(name, path string, h admission.Handler) {
	if !strings.HasPrefix(path, "/") || s.hooks[path] != nil || slices.Contains([]string{"/", livezPath, readyzPath}, path) {
		s.bad = append(s.bad, fmt.Errorf("webhook server: path %q of webhook %q is taken or not absolute", path, name))
		return
	}
	for _, other := range s.hooks {
		if other.name == name {
			s.bad = append(s.bad, fmt.Errorf("webhook server: the name of webhook %q is taken", name))
			return
		}
	}
	s.hooks[path] = newHook(name, h, &s.common)
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
// ShutdownDelay more, then no connections are, clients with HTTP/2 are told to go elsewhere,
// and requests in flight may finish within DrainTimeout. It returns at once, without binding
// the port, when the server is off or nothing is registered.
func (s *Server) Start(ctx context.Context) error {
	logger := bounded(klog.FromContext(ctx).WithName("webhook-server"))
	if err := errors.Join(s.bad...); err != nil {
		return err
	}
	if !s.serves() {
		logger.Info("Webhooks are not served", "securePort", s.opts.Port, "registered", len(s.hooks))
		return nil
	}
	ctx = klog.NewContext(ctx, logger)
	srv, err := s.httpServer(ctx)
	if err != nil {
		return err
	}
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	ended := make(chan struct{})
	g.Go(func() error { return s.opts.Certs.Run(gctx) })
	g.Go(func() error {
		defer close(ended)
		if err := srv.ServeTLS(newConnections(listener), "", ""); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("webhook server: serve on %s: %w", listener.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		<-gctx.Done()
		s.drain(context.WithoutCancel(ctx), srv, ended)
		return nil
	})
	s.state.CompareAndSwap(stateNew, stateServing)
	logger.Info("Serving webhooks", "address", listener.Addr().String(), "paths", s.paths(), "clientCertificates", s.clients != nil)
	return g.Wait()
}

// Ready is a healthz.Checker: nil when requests are served with a valid certificate and
// Options.Ready has agreed, or when there is nothing to serve.
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
	if s.opts.Ready != nil && !s.cloudReady.Load() {
		if err := s.opts.Ready(r.Context()); err != nil {
			return fmt.Errorf("webhook server: cloud is not ready: %w", err)
		}
		s.cloudReady.Store(true)
	}
	return nil
}

func (s *Server) serves() bool { return s.opts.Enabled() && len(s.hooks) > 0 }

func (s *Server) paths() []string { return slices.Sorted(maps.Keys(s.hooks)) }

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
