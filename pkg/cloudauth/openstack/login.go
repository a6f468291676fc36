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

	turn chan struct{} // holds one element while someone speaks to Keystone

	mu       sync.Mutex // guards what follows; never held during a request
	client   *gophercloud.ProviderClient
	catalog  *catalog
	identity Identity // without the secret
	project  string   // ID of the project that the token is for, "" for none
	expires  time.Time
	failure  error
	failures int
	retryAt  time.Time
	saidSkew bool
	waited   bool // newer credentials have been waited for, in vain
}

func (s *Session) newLogin(set *settings) *login {
	l := &login{settings: set, userAgent: s.options.UserAgent, timeout: s.options.RequestTimeout, turn: make(chan struct{}, 1)}
	l.http, l.transport = newHTTPClient(set, s.options)
	l.renewals = rate.NewLimiter(rate.Every(renewEvery), renewBurst)
	l.renewal = s.renew
	l.transport.newer = func(ctx context.Context, used *http.Transport) *http.Transport { return s.newerTransport(ctx, l, used) }
	return l
}

// ready returns the authenticated client and the catalog; the first call authenticates.
func (l *login) ready(ctx context.Context) (*gophercloud.ProviderClient, *catalog, error) {
	have := func() bool { return l.client != nil }
	if err := l.obtain(ctx, have); err != nil {
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
	l.mu.Lock()
	good := l.failure == nil && time.Now().Before(l.expires)
	l.mu.Unlock()
	if good {
		return nil
	}
	return pc.Reauthenticate(ctx, pc.Token())
}

// refused reports whether the latest attempt to get a token was refused.
func (l *login) refused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := AsError(l.failure)
	return e != nil && e.Reason == Rejected
}

// renew gets a new token with the same credentials.
func (l *login) renew(ctx context.Context) error {
	never := func() bool { return false }
	if failed, err := l.settled(never); failed {
		return err
	}
	if !l.renewals.Allow() {
		return &Error{Reason: Rejected, text: fmt.Sprintf("the cloud refuses the tokens that Keystone has just issued to %s; check that the services and Keystone agree (clocks, memcached, fernet keys)", l.settings.cfg.who())}
	}
	if l.settings.cfg.method() == byToken {
		return l.record(l.tokenExpired())
	}
	return l.obtain(ctx, never)
}

// obtain gets a token unless there is a good one already. One caller at a time does it; the
// others wait for it, each only as long as its own context allows.
func (l *login) obtain(ctx context.Context, good func() bool) error {
	if done, err := l.settled(good); done {
		return err
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return l.explain(ctx.Err())
	}
	defer func() { <-l.turn }()
	if done, err := l.settled(good); done {
		return err
	}
	got, err := l.persist(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return err // it says nothing about the credentials
		}
		return l.record(err)
	}
	if err := l.accept(got); err != nil {
		return err
	}
	l.checkClock(ctx, got)
	return nil
}

// settled reports whether no token needs to be asked for: there is a good one, or it is too
// early after a failure.
func (l *login) settled(good func() bool) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if good() {
		return true, nil
	}
	if l.failure != nil && time.Now().Before(l.retryAt) {
		return true, l.failure
	}
	return false, nil
}

// record remembers a failure and returns it.
func (l *login) record(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, longest := AsError(err), lastRetry
	if e != nil && e.Reason == Rejected {
		longest = lastRejected
	}
	wait := min(firstRetry<<min(l.failures, 10), longest)
	if e != nil && e.RetryAfter > wait {
		wait = min(e.RetryAfter, time.Minute)
	}
	l.failure, l.retryAt = err, time.Now().Add(wait)
	l.failures++
	return err
}

// accept takes a token over. The client stays the same one, so that whoever holds it has the
// new token as well.
func (l *login) accept(got result) error {
	token, err := got.ExtractToken()
	if err != nil {
		return l.record(l.noKeystone(err))
	}
	list, err := got.ExtractServiceCatalog()
	if err != nil {
		return l.record(l.noKeystone(err))
	}
	identity, project, err := identityOf(got)
	if err != nil {
		return l.record(l.noKeystone(err))
	}
	if token.ID == "" {
		return l.record(&Error{Reason: Unreachable, text: fmt.Sprintf("%s answers, but without a token: it is no Keystone; check auth-url", l.settings.auth.IdentityEndpoint)})
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
	l.failure, l.failures, l.waited = nil, 0, false
	return l.client.SetTokenAndAuthResult(got)
}

func (l *login) newClient() *gophercloud.ProviderClient {
	pc := &gophercloud.ProviderClient{HTTPClient: *l.http}
	pc.ReauthFunc = func(ctx context.Context) error { return l.renewal(ctx, l) }
	pc.UserAgent.Prepend(l.userAgent)
	pc.UseTokenLock()
	return pc
}
