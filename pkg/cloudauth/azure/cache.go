package azure

import (
	"context"
	"time"
)

// cached is what is known of the token for an audience.
type cached struct {
	token   Token
	refresh time.Time // when a new one is wanted
	flight  *flight   // nil unless one is being got
}

// flight is a request for a token that is under way. The rest may be read once done is closed.
type flight struct {
	done chan struct{}
	err  error
	// ended says that it was given up by whom it was for, which says nothing to others.
	ended bool
}

const (
	// maxMargin is how long before its end a token is replaced at most.
	maxMargin = 5 * time.Minute
	// retryRefresh is when a new token is asked for again after a failure, while the old one is good.
	retryRefresh = 30 * time.Second
)

// Token returns a token for an audience, such as https://containerregistry.azure.net. One that is at
// hand is used while it is good for minutes to come; only one request for a new one is under way at a
// time, and while it fails, the token at hand is used to its end. Errors are *cloudauth.Error.
func (s *Session) Token(ctx context.Context, audience string) (Token, error) {
	for {
		token, wait, mine := s.take(audience)
		switch {
		case mine:
			return s.renew(ctx, audience)
		case wait == nil:
			return token, nil
		}
		select {
		case <-wait.done:
		case <-ctx.Done():
			return Token{}, explain(Request{Where: "waiting for a token of " + s.Who()}, ctx.Err())
		}
		if wait.err != nil && !wait.ended {
			return Token{}, wait.err
		}
	}
}

// take returns the token at hand, or the request to wait for; or else the caller has to renew it, and
// is noted to do so.
func (s *Session) take(audience string) (at Token, wait *flight, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.tokens[audience]
	if c == nil {
		c = &cached{}
		s.tokens[audience] = c
	}
	now := s.now()
	switch {
	case now.Before(c.refresh), c.flight != nil && now.Before(c.token.Expires):
		return c.token, nil, false
	case c.flight != nil:
		return Token{}, c.flight, false
	}
	c.flight = &flight{done: make(chan struct{})}
	return Token{}, nil, true
}

// renew gets a new token for all who wait.
func (s *Session) renew(ctx context.Context, audience string) (Token, error) {
	token, err := s.fetch(ctx, audience)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.tokens[audience]
	f := c.flight
	c.flight = nil
	defer close(f.done)
	now := s.now()
	switch {
	case err == nil:
		c.token, c.refresh = token, token.Expires.Add(-min(token.Expires.Sub(now)/5, maxMargin))
		return token, nil
	case now.Before(c.token.Expires):
		c.refresh = now.Add(min(retryRefresh, c.token.Expires.Sub(now)))
		return c.token, nil
	}
	f.err, f.ended = err, ctx.Err() != nil
	return Token{}, err
}
