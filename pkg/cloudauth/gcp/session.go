package gcp

import (
	"context"
	"errors"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// Session is a login to Google Cloud. All of its methods may be called concurrently.
type Session struct {
	cfg    Config
	client *wire.Client
	now    func() time.Time
	file   string // the credentials file, "" for none

	tokens  *cloudauth.Cache[Token]
	current source // of one fetch at a time
	seen    string // fingerprint of the file that current is of
}

// New checks the configuration, decides on the source and reads the credentials file, if there
// is one. It does not use the network. Its errors are *cloudauth.Error.
func New(cfg Config, o Options) (*Session, error) {
	if err := cfg.check(); err != nil {
		return nil, misconfigured(err)
	}
	client := wire.NewClient(wire.Options{UserAgent: o.UserAgent, Timeout: o.RequestTimeout, Backoff: o.backoff, Remote: o.remote})
	s := &Session{cfg: cfg, now: o.now, client: client}
	if s.now == nil {
		s.now = time.Now
	}
	if cfg.Federation == nil && cfg.Account == "" {
		var err error
		if s.file, err = findFile(cfg); err != nil {
			return nil, err
		}
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	if o.RequestTimeout <= 0 {
		o.RequestTimeout = defaultRequestTimeout
	}
	s.tokens = cloudauth.NewCache(cloudauth.CacheOptions[Token]{Fetch: s.fetch, Timeout: 3 * o.RequestTimeout, Early: renewBefore, Watch: s.fingerprint, Now: s.now, Observe: o.Observe})
	return s, nil
}

const defaultRequestTimeout = 30 * time.Second

func (s *Session) fingerprint() string {
	if s.file == "" {
		return ""
	}
	return cloudauth.Fingerprint(s.file)
}

// load makes the source anew if its file has changed; the kind of place that it comes from stays.
// While the file cannot be used, what was read before stays. It is called once at a time.
func (s *Session) load() error {
	seen := s.fingerprint()
	if s.current != nil && seen == s.seen {
		return nil
	}
	src, err := s.base()
	if err != nil {
		return err
	}
	if email := s.cfg.Impersonate; email != "" {
		src = &impersonated{session: s, of: src, email: email, url: impersonationURL(s.cfg.universe(), email), life: defaultLife}
	}
	s.current, s.seen = src, seen
	return nil
}

// base is the source without impersonation.
func (s *Session) base() (source, error) {
	if f := s.cfg.Federation; f != nil {
		return &federated{session: s, audience: f.Audience, tokenType: typeJWT, tokenURL: stsURL(s.cfg.universe()), subject: given(f.Token), name: f.Subject}, nil
	}
	if s.file != "" {
		return s.ofFile(s.file)
	}
	account := s.cfg.Account
	if account == "" {
		account = defaultAccount
	}
	return metadata{session: s, account: account}, nil
}

// renewBefore is how long before its end a token is replaced: the metadata server gives
// the same one until it has about four minutes left.
const renewBefore = 225 * time.Second

// Token returns a token that is valid, from memory if there is one. While it is being replaced,
// or when that fails, the one before is given as long as it lives. Its errors are *cloudauth.Error.
func (s *Session) Token(ctx context.Context) (Token, error) {
	t, err := s.tokens.Get(ctx)
	var own *cloudauth.Error
	if err != nil && !errors.As(err, &own) {
		return t, &cloudauth.Error{Reason: cloudauth.Unreachable, Text: "waiting for a token of Google: " + err.Error(), Cause: err}
	}
	return t, err
}

// fetch gets a new token, of the file as it is now.
func (s *Session) fetch(ctx context.Context) (Token, time.Time, error) {
	if err := s.load(); err != nil {
		return Token{}, time.Time{}, err
	}
	t, err := s.current.token(ctx, s.cfg.Scopes)
	return t, t.Expires, err
}

// tokenOf sends a request to a token endpoint.
func (s *Session) tokenOf(ctx context.Context, r request, then time.Time) (Token, error) {
	a, err := s.send(ctx, r)
	if err != nil {
		return Token{}, err
	}
	t, err := parseToken(a.body, then)
	if err != nil {
		return Token{}, r.noToken()
	}
	t.Ahead = wire.Ahead(a.header, then)
	return t, nil
}
