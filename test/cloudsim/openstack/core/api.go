package core

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Options are openstack.Options as far as they are not a service's.
type Options struct {
	Listen     string
	Addresses  netip.Prefix
	Net        int
	TLS        bool
	StateDelay time.Duration
}

// API is the front of a running simulator.
type API struct {
	cloud    *Cloud
	identity Identity
	listen   string
	listener net.Listener
	dir      string // temporary files; "" when none
	caFile   string
	http     *http.Server
	tls      atomic.Pointer[tls.Config] // of new connections
	claim    io.Closer                  // holds the claim on 127.N.0.0/16
	serving  sync.WaitGroup
	closed   sync.Once

	open atomic.Int64 // connections
	obs  observer     // request log, faults, hooks; has its own lock
}

// Identity is what the API needs of Keystone.
type Identity interface {
	// Caller is whom a token stands for; false when it is not valid.
	Caller(token string) (Caller, bool)
	// AuthURL is Keystone's address.
	AuthURL() string
}

// Listen listens for the API of a cloud, which is yet without services; Serve then serves.
func Listen(opts Options) (*API, *Cloud, error) {
	if err := opts.complete(); err != nil {
		return nil, nil, err
	}
	claim, plan, err := opts.claimNet()
	if err != nil {
		return nil, nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	cloud := &Cloud{addressPlan: plan, addresses: opts.Addresses, StateDelay: opts.StateDelay, Started: time.Now().UTC(), Context: ctx, stop: stop}
	s := &API{cloud: cloud, listen: opts.Listen, claim: claim}
	s.obs.done = ctx.Done()
	if err := s.openListener(opts.TLS); err != nil {
		stop()
		return nil, nil, errors.Join(err, claim.Close(), s.removeFiles())
	}
	return s, cloud, nil
}

// Serve answers calls of the services from now on.
func (s *API) Serve(identity Identity, services []*Service) {
	s.identity = identity
	s.http = &http.Server{
		Handler:           s.handler(services),
		ReadHeaderTimeout: 30 * time.Second,
		// Real OpenStack speaks HTTP/1.1 only.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:     log.New(io.Discard, "", 0), // clients come and go as tests want it
		ConnState:    s.countConnection,
	}
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		_ = s.http.Serve(s.listener) // ends at Close with ErrServerClosed
	}()
}

func (o *Options) complete() error {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return fmt.Errorf("listen address %q: %w; use for example 127.0.0.1:0", o.Listen, err)
	}
	if o.Addresses.IsValid() && (o.Addresses.Bits() != 16 || !o.Addresses.Addr().Is4() || o.Net != 0) {
		return fmt.Errorf("addresses %s: want a /16 of IPv4, and no net beside it", o.Addresses)
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() && !o.Addresses.Contains(ip) {
		return fmt.Errorf("listen address %q is not a loopback address; use for example 127.0.0.1:0", o.Listen)
	}
	if o.StateDelay == 0 {
		o.StateDelay = 20 * time.Millisecond
	}
	return nil
}

func (s *API) openListener(withTLS bool) error {
	ln, err := net.Listen("tcp", s.listen) //nolint:noctx // listening on an address of this machine does not wait
	if err != nil {
		return fmt.Errorf("listen for the simulated OpenStack: %w", err)
	}
	if !withTLS {
		s.cloud.URL, s.listener = "http://"+ln.Addr().String(), ln
		return nil
	}
	conf, err := s.makeCertificates()
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	s.cloud.URL, s.listener = "https://"+ln.Addr().String(), tls.NewListener(ln, conf)
	return nil
}

// Close ends the simulator: open requests are cut, all goroutines and listeners end.
// Close may be called more than once.
func (s *API) Close() {
	s.closed.Do(func() {
		s.obs.mu.Lock() // a request has begun by now, and is waited for, or never will
		s.cloud.stop()
		s.obs.mu.Unlock()
		_ = s.http.Close()
		s.serving.Wait()
		s.obs.inFlight.Wait()
		s.cloud.wg.Wait()
		_ = s.claim.Close()
		_ = s.removeFiles()
	})
}

func (s *API) removeFiles() error {
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// countConnection is net/http's report on a connection.
func (s *API) countConnection(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.open.Add(1)
	case http.StateClosed, http.StateHijacked: // what is hijacked is reset at once
		s.open.Add(-1)
	}
}

// Connections returns how many connections to the API are open.
func (s *API) Connections() int { return int(s.open.Load()) }

// Done is closed when Close begins, for hooks that block.
func (s *API) Done() <-chan struct{} { return s.cloud.Context.Done() }

// URL is the scheme, host and port of all services, without a trailing slash.
func (s *API) URL() string { return s.cloud.URL }

// CAFile is the file with the CA's certificate, "" without Options.TLS. It is removed by Close.
func (s *API) CAFile() string { return s.caFile }

// Net is the second octet of the simulator's addresses, of loopback or of Options.Addresses.
func (s *API) Net() int { return s.cloud.net }
