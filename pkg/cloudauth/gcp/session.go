package gcp

import (
	"context"
	"sync"
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

	turn    chan struct{} // holds who gets a token, and guards current
	current source

	mu     sync.Mutex // guards all below, never held during a request
	seen   string     // fingerprint of the file that current is of
	looked time.Time  // when the file was looked at
	last   Token
	renew  time.Time // when last is to be replaced
}

// New checks the configuration, decides on the source and reads the credentials file, if there
// is one. It does not use the network. Its errors are *cloudauth.Error.
func New(cfg Config, o Options) (*Session, error) {
	if err := cfg.check(); err != nil {
		return nil, misconfigured(err)
	}
	client := wire.NewClient(wire.Options{UserAgent: o.UserAgent, Timeout: o.RequestTimeout, Backoff: o.backoff, Remote: o.remote})
	s := &Session{cfg: cfg, now: o.now, turn: make(chan struct{}, 1), client: client}
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
	return s, nil
}

// lookEvery is how often the credentials file is looked at.
const lookEvery = 5 * time.Second

// load makes the source anew if its file has changed; the kind of place that it comes from stays.
// While the file cannot be used, what was read before stays. The caller has the turn.
func (s *Session) load() error {
	var seen string
	if s.file != "" {
		seen = cloudauth.Fingerprint(s.file)
	}
	s.mu.Lock()
	same := s.current != nil && seen == s.seen
	s.mu.Unlock()
	if same {
		return nil
	}
	src, err := s.base()
	if err != nil {
		return err
	}
	if email := s.cfg.Impersonate; email != "" {
		src = &impersonated{session: s, of: src, email: email, url: impersonationURL(s.cfg.universe(), email), life: defaultLife}
	}
	s.current = src
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.looked = seen, s.now()
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

const (
	// renewBefore is how long before its end a token is replaced: the metadata server gives
	// the same one until it has about four minutes left.
	renewBefore = 225 * time.Second
	// leeway is what a token has to live on to be given out.
	leeway = 10 * time.Second
)

// Token returns a token that is valid, from memory if there is one. While it is being replaced,
// or when that fails, the one before is given as long as it lives. Its errors are *cloudauth.Error.
func (s *Session) Token(ctx context.Context) (Token, error) {
	last, fresh := s.cached()
	if fresh {
		return last, nil
	}
	valid := last.Expires.Sub(s.now()) > leeway
	if valid {
		select {
		case s.turn <- struct{}{}:
		default:
			return last, nil
		}
	} else {
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return Token{}, &cloudauth.Error{Reason: cloudauth.Unreachable, Text: "waiting for a token of Google: " + ctx.Err().Error(), Cause: ctx.Err()}
		}
	}
	defer func() { <-s.turn }()
	if t, fresh := s.cached(); fresh { // who had the turn before got it
		return t, nil
	}
	t, err := s.fetch(ctx)
	if err != nil && valid {
		return last, nil
	}
	return t, err
}

// cached returns the last token, and whether it need not be replaced yet.
func (s *Session) cached() (Token, bool) {
	now := s.now()
	s.mu.Lock()
	look := s.file != "" && !s.last.Value.IsEmpty() && now.Sub(s.looked) >= lookEvery
	if look {
		s.looked = now
	}
	seen := s.seen
	s.mu.Unlock()
	changed := look && cloudauth.Fingerprint(s.file) != seen
	s.mu.Lock()
	defer s.mu.Unlock()
	if changed {
		s.renew = now
	}
	return s.last, now.Before(s.renew)
}

// fetch gets a new token and keeps it. The caller has the turn.
func (s *Session) fetch(ctx context.Context) (Token, error) {
	if err := s.load(); err != nil {
		return Token{}, err
	}
	t, err := s.current.token(ctx, s.cfg.Scopes)
	if err != nil {
		return Token{}, err
	}
	now := s.now()
	life := t.Expires.Sub(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.renew = t, t.Expires.Add(-min(renewBefore, life/2))
	return t, nil
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
