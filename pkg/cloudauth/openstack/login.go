package openstack

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"golang.org/x/time/rate"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

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

	inUse atomic.Bool // false while it is only tried

	tokens *cloudauth.Cache[struct{}] // says who speaks to Keystone, and when; the token is the client's

	mu       sync.Mutex // guards what follows; never held during a request
	client   *gophercloud.ProviderClient
	catalog  *catalog
	identity Identity // without the secret
	project  string   // ID of the project that the token is for, "" for none
	expires  time.Time
	saidSkew bool
	waited   bool // newer credentials have been waited for, in vain
}

func (s *Session) newLogin(set *settings) *login {
	l := &login{settings: set, userAgent: s.options.UserAgent, timeout: s.options.RequestTimeout}
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
	identity, project, err := identityOf(got)
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
	l.catalog, l.identity, l.project, l.expires = found, identity, project, token.ExpiresAt
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
