package openstack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Options configures a simulator. The zero value is a good one.
type Options struct {
	// Listen is the API's address, "127.0.0.1:0" by default. It must be a loopback address or one of Addresses.
	Listen string
	// Addresses is a /16 of IPv4 whose addresses the simulator hands out in place of loopback's, where a network
	// namespace is the cloud's: the caller has routes to the servers, and the kernel takes the others for its own.
	Addresses netip.Prefix
	// Net is the second octet of the 127.N.0.0/16 whose addresses the simulator hands out; 0 picks a free one.
	Net int
	// TLS serves HTTPS with a certificate of an own CA; see Sim.CAFile.
	TLS bool
	// TokenLifetime is how long a token is valid, 1 hour by default.
	TokenLifetime time.Duration
	// StateDelay is how long transient states (BUILD, PENDING_CREATE, …) last: 20 ms by default,
	// negative for as short as possible.
	StateDelay time.Duration
	// OctaviaDelay is how long PENDING_* states of load balancers last, StateDelay by default.
	OctaviaDelay time.Duration
	// Jobboard has fully populated creates of the amphora driver done whole, as where Octavia's jobboard is
	// turned on; without, which is the default, Zed leaves their children in PENDING_CREATE.
	Jobboard bool
	// HideExternalSubnets shows the subnets of external networks to nobody but their project, as Neutron's default
	// policy has it; without, everyone sees them, as in clouds that let users choose among them.
	HideExternalSubnets bool
	// LeakVIPPorts keeps the VIP's port when a fully populated create of a load balancer is refused
	// after the port was made. Zed does that; the port must then be deleted by hand.
	LeakVIPPorts bool
	// Trunks loads Neutron's service plugin trunk, which not every cloud has.
	Trunks bool
	// Keystone makes the simulator a further region of another one, which must be open longer: its
	// catalog gets this one's endpoints, and its tokens are the valid ones. Region is the name, which
	// then is required; without Keystone it is the constant Region.
	Keystone *Sim
	Region   string
	// MaxLimit is the largest page that Nova and Cinder answer with, 1000 by default as
	// osapi_max_limit has it.
	MaxLimit int
}

// Sim is a running simulator. All methods may be called concurrently.
type Sim struct {
	opts    Options
	url     string // scheme://host:port
	dir     string // temporary files; "" when none
	caFile  string
	http    *http.Server
	tls     atomic.Pointer[tls.Config] // of new connections
	claim   io.Closer                  // holds the claim on 127.N.0.0/16
	held    chan struct{}              // closed when transient states may end again; guarded by mu
	addrs   addressPlan
	start   time.Time
	ctx     context.Context // ends at Close; owned by Sim, not by a call
	stop    context.CancelFunc
	wg      sync.WaitGroup
	serving sync.WaitGroup
	closed  sync.Once

	open atomic.Int64 // connections
	obs  observer     // request log, faults, hooks; has its own lock

	mu       sync.Mutex // guards all below
	identity identityState
	compute  computeState
	volume   volumeState
	keys     keyState
	network  networkState
	lb       lbState
}

// Start starts a simulator with one project, a public and a private network joined by a
// router, flavors and volume types, and no servers.
func Start(opts Options) (*Sim, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	claim, plan, err := opts.claimNet()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Sim{opts: opts, claim: claim, addrs: plan, start: time.Now().UTC(), ctx: ctx, stop: stop}
	s.obs.done = ctx.Done()
	ln, err := s.listen()
	if err != nil {
		stop()
		return nil, errors.Join(err, claim.Close(), s.removeFiles())
	}
	s.seedIdentity()
	s.seedCompute()
	s.seedVolume()
	s.seedNetwork()
	s.seedOctavia()
	s.http = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 30 * time.Second,
		// Real OpenStack speaks HTTP/1.1 only.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:     discardLog(),
		ConnState:    s.countConnection,
	}
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		_ = s.http.Serve(ln) // ends at Close with ErrServerClosed
	}()
	return s, nil
}

// ForTest is Start for a test or benchmark: it fails t on errors, and ends with it.
func ForTest(t testing.TB, opts ...Options) *Sim {
	t.Helper()
	var o Options
	if len(opts) > 0 {
		o = opts[0]
	}
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
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
	if ip, err := netip.ParseAddr(host); err != nil || !o.hasAddress(ip) {
		return fmt.Errorf("listen address %q is not a loopback address; use for example 127.0.0.1:0", o.Listen)
	}
	if (o.Keystone == nil) != (o.Region == "") {
		return errors.New("the options Keystone and Region go together")
	}
	if o.Region == "" {
		o.Region = Region
	}
	if o.TokenLifetime == 0 {
		o.TokenLifetime = time.Hour
	}
	if o.StateDelay == 0 {
		o.StateDelay = 20 * time.Millisecond
	}
	if o.MaxLimit == 0 {
		o.MaxLimit = 1000
	}
	return nil
}

// hasAddress says whether the simulator may listen on an address or connect to it.
func (o *Options) hasAddress(a netip.Addr) bool { return a.IsLoopback() || o.Addresses.Contains(a) }

func (s *Sim) listen() (net.Listener, error) {
	ln, err := net.Listen("tcp", s.opts.Listen) //nolint:noctx // listening on an address of this machine does not wait
	if err != nil {
		return nil, fmt.Errorf("listen for the simulated OpenStack: %w", err)
	}
	if !s.opts.TLS {
		s.url = "http://" + ln.Addr().String()
		return ln, nil
	}
	s.url = "https://" + ln.Addr().String()
	conf, err := s.makeCertificates()
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return tls.NewListener(ln, conf), nil
}

// Close ends the simulator: open requests are cut, all goroutines and listeners end.
// Close may be called more than once.
func (s *Sim) Close() {
	s.closed.Do(func() {
		s.obs.mu.Lock() // a request has begun by now, and is waited for, or never will
		s.stop()
		s.obs.mu.Unlock()
		_ = s.http.Close()
		s.serving.Wait()
		s.obs.inFlight.Wait()
		s.wg.Wait()
		_ = s.claim.Close()
		_ = s.removeFiles()
	})
}

func (s *Sim) removeFiles() error {
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// after runs fn with s.mu held once d has passed, unless the simulator closes first.
// It may be called with or without s.mu held.
func (s *Sim) after(d time.Duration, fn func()) {
	s.spawn(func(ctx context.Context) {
		t := time.NewTimer(max(d, 0))
		defer t.Stop()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for {
			s.mu.Lock()
			held := s.held
			if held == nil {
				fn()
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
			select {
			case <-ctx.Done():
				return
			case <-held:
			}
		}
	})
}

// HoldStates keeps transient states (BUILD, PENDING_UPDATE, …) as they are, however long they
// are to last, until the returned function is called. Nobody else may hold them meanwhile.
func (s *Sim) HoldStates() (release func()) {
	held := make(chan struct{})
	s.mu.Lock()
	s.held = held
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.held = nil
		s.mu.Unlock()
		close(held)
	})
}

// spawn runs fn in a goroutine that Close waits for; ctx ends at Close. s.mu is not held.
func (s *Sim) spawn(fn func(ctx context.Context)) {
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		fn(s.ctx)
	}()
}

// countConnection is net/http's report on a connection.
func (s *Sim) countConnection(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.open.Add(1)
	case http.StateClosed, http.StateHijacked: // what is hijacked is reset at once
		s.open.Add(-1)
	}
}

// Connections returns how many connections to the API are open.
func (s *Sim) Connections() int { return int(s.open.Load()) }

// Done is closed when Close begins, for hooks that block.
func (s *Sim) Done() <-chan struct{} { return s.ctx.Done() }

// URL is the scheme, host and port of all services, without a trailing slash.
func (s *Sim) URL() string { return s.url }

// AuthURL is Keystone's address.
func (s *Sim) AuthURL() string { return s.keystone().url + "/identity/v3" }

// keystone is the simulator that has the users and the tokens.
func (s *Sim) keystone() *Sim {
	if s.opts.Keystone != nil {
		return s.opts.Keystone
	}
	return s
}

// CAFile is the file with the CA's certificate, "" without Options.TLS. It is removed by Close.
func (s *Sim) CAFile() string { return s.caFile }

// Net is the second octet of the simulator's addresses, of loopback or of Options.Addresses.
func (s *Sim) Net() int { return s.addrs.net }
