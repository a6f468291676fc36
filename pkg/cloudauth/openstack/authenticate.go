package openstack

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"k8s.io/klog/v2"
)

const (
	// A Keystone that stumbles is asked stumbles times within one attempt, after stumbleWait and
	// then after four times as long, or after what it asks for, up to longestStumble.
	stumbles       = 3
	stumbleWait    = 100 * time.Millisecond
	longestStumble = 2 * time.Second
	// maxSkew is how much this machine's clock may differ from Keystone's.
	maxSkew = time.Minute
)

// persist authenticates, and tries again soon when Keystone stumbles, so that this fails no
// request. The error is explained.
func (l *login) persist(ctx context.Context) (result, error) {
	for n := 1; ; n++ {
		got, err := l.authenticate(ctx)
		if err == nil {
			return got, nil
		}
		explained := l.explain(err)
		wait := max(stumbleWait<<(2*(n-1)), AsError(explained).RetryAfter)
		if n == stumbles || wait > longestStumble || !isStumble(AsError(explained), err) {
			return nil, explained
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, explained
		case <-timer.C:
		}
	}
}

// isStumble reports whether a failure is likely to pass within a moment: a 5xx, or a connection
// that was cut.
func isStumble(e *Error, cause error) bool {
	return e.Reason == Failed || errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) || errors.Is(cause, syscall.ECONNRESET)
}

// checkClock says once when this machine's clock is far from Keystone's, which makes valid
// certificates look over and hides when tokens end.
func (l *login) checkClock(ctx context.Context, got result) {
	var t struct {
		Issued time.Time `json:"issued_at"`
	}
	if l.settings.cfg.method() == byToken || got.ExtractInto(&t) != nil || t.Issued.IsZero() {
		return
	}
	skew := time.Since(t.Issued)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expires = l.expires.Add(skew) // by this machine's clock
	if skew.Abs() < maxSkew || l.saidSkew {
		return
	}
	l.saidSkew = true
	klog.FromContext(ctx).Info("This machine's clock differs from Keystone's; set both by NTP, or certificates are refused", "ahead", skew.Round(time.Second))
}

// result is what tokens.Create and tokens.Get have in common.
type result interface {
	gophercloud.AuthResult
	ExtractToken() (*tokens.Token, error)
	ExtractServiceCatalog() (*tokens.ServiceCatalog, error)
	ExtractInto(v any) error
}

// authenticate asks Keystone for a token, or about the given one.
func (l *login) authenticate(ctx context.Context) (result, error) {
	endpoint := l.settings.auth.IdentityEndpoint
	pc := &gophercloud.ProviderClient{HTTPClient: *l.http}
	pc.UserAgent.Prepend(l.userAgent)
	sc := &gophercloud.ServiceClient{ProviderClient: pc, Endpoint: endpoint, Type: "identity"}
	ao := l.settings.auth
	if l.settings.cfg.method() == byAccessToken {
		unscoped, err := l.exchange(ctx)
		if err != nil {
			return nil, err
		}
		ao.TokenID = unscoped
	}
	if ao.TokenID != "" && (ao.Scope == nil || *ao.Scope == gophercloud.AuthScope{}) {
		pc.SetToken(ao.TokenID)
		r := tokens.Get(ctx, sc, ao.TokenID)
		return r, r.Err
	}
	if ao.Scope != nil {
		scope := *ao.Scope
		ao.Scope = &scope
	}
	r := tokens.Create(ctx, sc, &ao)
	return r, r.Err
}
