package openstack

import (
	"context"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// defaultRequestTimeout bounds a request where Options say nothing.
const defaultRequestTimeout = 30 * time.Second

// Keystone is the service that gives out tokens, as requests name it.
const Keystone = "identity"

// Options are the parts of a Session that cloud.conf does not set.
type Options struct {
	// ConfigFile is the cloud.conf that the Config came from. Run reads it again when it
	// changes; "" when there is none. It also names the file in errors.
	ConfigFile string
	// UserAgent is put before gophercloud's own.
	UserAgent string
	// RequestTimeout bounds each HTTP request, body included; 0 means 30 s.
	RequestTimeout time.Duration
	// Begin is called before every HTTP request, retries and authentication (Keystone) included, with
	// the service and where its URLs begin; a request that it has an error for is not sent and fails
	// with that. end is told the answer, nil when there was none. Nil for no one.
	Begin func(service, endpoint string, req *http.Request) (end func(*http.Response), err error)
	// Intercept, when set, is called in place of sending a request that is not a read; send
	// sends one. Requests to Keystone are sent, as without them there is no token.
	Intercept func(service string, req *http.Request, send http.RoundTripper) (*http.Response, error)
	// Reloaded is called after every attempt to take changed credentials over, with nil when
	// they are in use and else with the reason why not. Nil for no one; it must not block.
	Reloaded func(err error)

	now func() time.Time // nil means time.Now; for how long Keystone is left alone
}

// Session is a login to one OpenStack cloud. All of its methods may be called concurrently.
//
// Credentials that change on disk replace the ones in use, whether Run finds them at its next
// look or a refusal of the old ones makes the Session look at once, see rotate.go.
type Session struct {
	options Options
	getenv  func(string) string
	files   reloader

	mu      sync.Mutex
	current *login
}

// New checks the configuration, completed by clouds.yaml and the environment, and returns a
// Session for it. It reads files but does not use the network.
func New(cfg Config, o Options) (*Session, error) {
	return newSession(cfg, o, os.Getenv)
}

func newSession(cfg Config, o Options, getenv func(string) string) (*Session, error) {
	if o.RequestTimeout <= 0 {
		o.RequestTimeout = defaultRequestTimeout
	}
	s := &Session{options: o, getenv: getenv}
	s.files = reloader{session: s, turn: make(chan struct{}, 1)}
	set, w, err := s.load(watched{cfg: cfg}, nil)
	if err != nil {
		return nil, err
	}
	s.files.watched = w
	s.use(s.newLogin(set))
	return s, nil
}

func (s *Session) login() *login {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Service returns a client for "compute", "network", "load-balancer", "block-storage" or
// "key-manager". The first call authenticates; callers that come meanwhile wait for the
// same answer. The client is a fresh value of the caller's own, so it may set Microversion;
// it renews the token by itself, with newer credentials when those it was made with are
// refused. Ask for a new client for each operation all the same, which costs nothing:
// endpoints may change.
func (s *Session) Service(ctx context.Context, service string) (*gophercloud.ServiceClient, error) {
	_, pc, catalog, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	return catalog.client(service, pc)
}

// Check returns nil when there is a token that is not known to be refused, getting one if
// need be, and otherwise why not. It is cheap: answers, bad ones too, come from memory
// where they can.
func (s *Session) Check(ctx context.Context) error {
	l, _, _, err := s.ready(ctx)
	if err != nil {
		return err
	}
	return l.check(ctx)
}

// Region returns the region that the configuration names, "" when it names none. It stays
// what it was at the start.
func (s *Session) Region() string { return s.login().settings.cfg.Region }
