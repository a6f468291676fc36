package openstack

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"golang.org/x/time/rate"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
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
	// Expires is told when each token ends that was got, by this machine's clock. Nil for no one; it must not block.
	Expires func(at time.Time)

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

// ready returns the login in use, authenticated, with its client and catalog.
func (s *Session) ready(ctx context.Context) (*login, *gophercloud.ProviderClient, *catalog, error) {
	l := s.login()
	pc, catalog, err := l.ready(ctx)
	if err != nil && l.refused() && s.supersede(ctx, l) {
		l = s.login()
		pc, catalog, err = l.ready(ctx)
	}
	return l, pc, catalog, err
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

// Require returns nil when the catalog has endpoints of all the services, and otherwise what
// is missing and what to do. It authenticates at most once, as Service does.
func (s *Session) Require(ctx context.Context, services ...string) error {
	return (&Region{session: s, primary: true}).Require(ctx, services...)
}

// Regions lists the regions of the catalog.
func (s *Session) Regions(ctx context.Context) ([]string, error) {
	_, _, catalog, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	return catalog.regions(), nil
}

// Region is a Session in another region: the same login and token, other endpoints.
type Region struct {
	session *Session
	name    string
	primary bool // the Session's own
}

// In returns the Session in the region of that name.
func (s *Session) In(region string) *Region { return &Region{session: s, name: region} }

// Region returns the region's name.
func (r *Region) Region() string { return r.name }

// Service is Session.Service in this region.
func (r *Region) Service(ctx context.Context, service string) (*gophercloud.ServiceClient, error) {
	pc, catalog, err := r.ready(ctx)
	if err != nil {
		return nil, err
	}
	return catalog.client(service, pc)
}

// Require is Session.Require in this region.
func (r *Region) Require(ctx context.Context, services ...string) error {
	pc, catalog, err := r.ready(ctx)
	if err != nil {
		return err
	}
	for _, service := range services {
		if _, err := catalog.client(service, pc); err != nil {
			return err
		}
	}
	return nil
}

func (r *Region) ready(ctx context.Context) (*gophercloud.ProviderClient, *catalog, error) {
	_, pc, catalog, err := r.session.ready(ctx)
	if err == nil && !r.primary {
		catalog = catalog.in(r.name)
	}
	return pc, catalog, err
}

const (
	// After a failure the next attempt waits firstRetry, then twice as long each time up to
	// lastRetry, or lastRejected when Keystone refused the credentials; until then the failure
	// is the answer. Keystone is not asked by every request, and no account gets locked, or
	// stays locked, by hundreds of wrong passwords. Changed files are tried at once (Run).
	firstRetry   = time.Second
	lastRetry    = 10 * time.Second
	lastRejected = 2 * time.Minute
	// Tokens that are refused soon after they were issued are replaced at this rate.
	renewEvery = 5 * time.Second
	renewBurst = 3
)

// login is one set of credentials with the token they got.
type login struct {
	settings  *settings
	http      *http.Client
	transport *transport
	userAgent string
	timeout   time.Duration // of one request
	renewals  *rate.Limiter
	renewal   func(context.Context, *login) error // what a refused token leads to (Session.renew)
	told      func(time.Time)                     // Options.Expires; nil for no one

	inUse atomic.Bool // false while it is only tried

	tokens *cloudauth.Cache[struct{}] // says who speaks to Keystone, and when; the token is the client's

	mu       sync.Mutex // guards what follows; never held during a request
	client   *gophercloud.ProviderClient
	catalog  *catalog
	holder   holder
	expires  time.Time
	saidSkew bool
	waited   bool // newer credentials have been waited for, in vain
}

func (s *Session) newLogin(set *settings) *login {
	l := &login{settings: set, userAgent: s.options.UserAgent, timeout: s.options.RequestTimeout, told: s.options.Expires}
	l.http, l.transport = newHTTPClient(set, s.options)
	l.renewals = rate.NewLimiter(rate.Every(renewEvery), renewBurst)
	l.renewal = s.renew
	l.transport.newer = func(ctx context.Context, used *http.Transport) *http.Transport { return s.newerTransport(ctx, l, used) }
	l.tokens = cloudauth.NewCache(cloudauth.CacheOptions[struct{}]{Fetch: l.fetch, Timeout: 3 * l.timeout, Backoff: leaveAlone, Now: s.options.now})
	return l
}

// ready returns the authenticated client and the catalog; the first call authenticates.
func (l *login) ready(ctx context.Context) (*gophercloud.ProviderClient, *catalog, error) {
	l.mu.Lock()
	client, catalog := l.client, l.catalog
	l.mu.Unlock()
	if client != nil { // which renews its token by itself
		return client, catalog, nil
	}
	if err := l.obtain(ctx, l.tokens.Get); err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client, l.catalog, nil
}

// check answers from memory while the token is valid and was not refused; else it gets a new one.
func (l *login) check(ctx context.Context) error {
	pc, _, err := l.ready(ctx)
	if err != nil {
		return err
	}
	_, failure := l.tokens.Failure()
	l.mu.Lock()
	good := failure == nil && time.Now().Before(l.expires)
	l.mu.Unlock()
	if good {
		return nil
	}
	return pc.Reauthenticate(ctx, pc.Token())
}

// refused reports whether the latest attempt to get a token was refused.
func (l *login) refused() bool {
	_, failure := l.tokens.Failure()
	e := AsError(failure)
	return e != nil && e.Reason == Rejected
}

// renew gets a new token with the same credentials.
func (l *login) renew(ctx context.Context) error {
	if stays, failure := l.tokens.Failure(); stays {
		return failure
	}
	if !l.renewals.Allow() {
		return &Error{Reason: Rejected, text: fmt.Sprintf("the cloud refuses the tokens that Keystone has just issued to %s; check that the services and Keystone agree (clocks, memcached, fernet keys)", l.settings.cfg.who())}
	}
	return l.obtain(ctx, l.tokens.Renew)
}

// obtain gets a token as get does; all who ask at a time wait together, each only as long as its own context allows.
func (l *login) obtain(ctx context.Context, get func(context.Context) (struct{}, error)) error {
	_, err := get(ctx)
	if err != nil && AsError(err) == nil { // of the context
		return l.explain(err)
	}
	return err
}

// fetch gets a token and takes it over.
func (l *login) fetch(ctx context.Context) (none struct{}, never time.Time, err error) {
	l.mu.Lock()
	again := l.client != nil
	l.mu.Unlock()
	if again && l.settings.cfg.method() == byToken {
		return none, never, l.tokenExpired()
	}
	got, err := l.persist(ctx)
	if err != nil {
		return none, never, err
	}
	if err := l.accept(got); err != nil {
		return none, never, err
	}
	l.checkClock(ctx, got)
	if l.told != nil {
		l.mu.Lock()
		expires := l.expires
		l.mu.Unlock()
		l.told(expires)
	}
	return none, never, nil
}

// leaveAlone is how long Keystone is left alone after so many failures in a row.
func leaveAlone(failures int, err error) time.Duration {
	e, longest := AsError(err), lastRetry
	if e != nil && e.Reason == Rejected {
		longest = lastRejected
	}
	wait := backoff.Doubling(firstRetry, longest, failures)
	if e != nil && e.RetryAfter > wait {
		wait = min(e.RetryAfter, time.Minute)
	}
	return wait
}

// accept takes a token over. The client stays the same one, so that whoever holds it has the
// new token as well.
func (l *login) accept(got result) error {
	token, err := got.ExtractToken()
	if err != nil {
		return l.noKeystone(err)
	}
	list, err := got.ExtractServiceCatalog()
	if err != nil {
		return l.noKeystone(err)
	}
	holder, err := holderOf(got)
	if err != nil {
		return l.noKeystone(err)
	}
	if token.ID == "" {
		return &Error{Reason: Unreachable, text: fmt.Sprintf("%s answers, but without a token: it is no Keystone; check auth-url", l.settings.auth.IdentityEndpoint)}
	}
	found := &catalog{entries: list.Entries, region: l.settings.cfg.Region, availability: l.settings.availability}
	prefixes := found.prefixes(l.settings.auth.IdentityEndpoint)
	l.transport.prefixes.Store(&prefixes)

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == nil {
		l.client = l.newClient()
	}
	l.catalog, l.holder, l.expires = found, holder, token.ExpiresAt
	l.waited = false
	return l.client.SetTokenAndAuthResult(got)
}

func (l *login) newClient() *gophercloud.ProviderClient {
	pc := &gophercloud.ProviderClient{HTTPClient: *l.http}
	pc.ReauthFunc = func(ctx context.Context) error { return l.renewal(ctx, l) }
	pc.UserAgent.Prepend(l.userAgent)
	pc.UseTokenLock()
	return pc
}
