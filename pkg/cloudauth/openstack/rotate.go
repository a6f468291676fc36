package openstack

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// How a rotation of credentials goes without a failed request.
//
// Old credentials often end at the very moment when new ones are written. So a refusal of
// what is in use (a token, credentials, a certificate of either side) makes the Session look
// at its files at once, and wait for a moment while they are being changed. Once newer
// credentials are in use, the request is sent again with a token of theirs, also where it is
// made with a client of before. Nothing is done twice: what was refused was not carried out.

const (
	// rotationGrace is how long newer credentials are waited for after a refusal, once a login.
	// Whatever waits would fail otherwise.
	rotationGrace = 10 * time.Second
	// lookEvery is how often the files are looked at meanwhile.
	lookEvery = 100 * time.Millisecond
)

// renew is gophercloud's ReauthFunc for the client of l: the cloud refused its token.
// gophercloud sees to it that it runs once for all requests that were refused at the same
// time; all of them get its result, so it does not end with the one that was the first.
func (s *Session) renew(ctx context.Context, l *login) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	if s.login() == l {
		s.files.lookNow(ctx)
	}
	if current := s.login(); current != l {
		return current.lend(ctx, l)
	}
	err := l.renew(ctx)
	if err != nil && l.refused() && s.supersede(ctx, l) {
		return s.login().lend(ctx, l)
	}
	return err
}

// supersede reports whether newer credentials than l's, which were refused, are in use now.
// It waits for them while the files are changed, and for a moment when l used to work.
func (s *Session) supersede(ctx context.Context, l *login) bool {
	if !s.files.enter(ctx) {
		return false
	}
	defer s.files.leave()
	end := time.Now().Add(rotationGrace)
	for {
		unused := s.files.look(ctx, time.Now())
		if s.login() != l {
			return true
		}
		if len(s.files.watched.files) == 0 || !l.mayWait(unused != nil, time.Now().After(end)) {
			return false
		}
		timer := time.NewTimer(lookEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
}

// mayWait reports whether newer credentials are to be waited for: when they are being
// written or l has worked before, but only once until l works again.
func (l *login) mayWait(changing, over bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if over {
		l.waited = true
	}
	return !l.waited && (changing || l.client != nil)
}

// lend gives the client of an older login a good token of l's. Both are for one project,
// see reload.
func (l *login) lend(ctx context.Context, older *login) error {
	pc, _, err := l.ready(ctx)
	if err != nil {
		return err
	}
	older.mu.Lock()
	client := older.client
	older.mu.Unlock()
	if token := pc.Token(); token == client.Token() { // lent before, and refused now
		if err := pc.Reauthenticate(ctx, token); err != nil {
			return err
		}
	}
	return client.SetTokenAndAuthResult(pc.GetAuthResult())
}

// newerTransport returns what to send with after one side did not trust the other's
// certificate while used, of l or lent to it, was sent with; nil when there is nothing newer.
func (s *Session) newerTransport(ctx context.Context, l *login, used *http.Transport) *http.Transport {
	if !l.inUse.Load() {
		return nil // it is only tried and has to stand on its own
	}
	current := s.login()
	if base := current.transport.base.Load(); base != used {
		return base
	}
	if !s.supersede(ctx, current) {
		return nil
	}
	return s.login().transport.base.Load()
}

// isDistrust reports whether a connection failed because of a certificate, so that no request
// can have been carried out.
func isDistrust(err error) bool {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	if errors.As(err, &unknown) || errors.As(err, &invalid) {
		return true
	}
	alert := tlsAlert(err)
	return strings.Contains(alert, "certificate") || strings.Contains(alert, "handshake failure") || strings.Contains(alert, "access denied")
}

// tlsAlert returns the words of the alert with which the other side ended a TLS connection, ""
// when that is not what happened.
func tlsAlert(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" && strings.HasPrefix(op.Err.Error(), "tls: ") {
		return op.Err.Error()
	}
	return ""
}
