package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// Expiry is when what a Session logs in with ends: from then on Keystone gives it no token.
type Expiry struct {
	// Of is what ends, for people: "application credential 1234", "the password of user k8s".
	Of string
	// At is zero where it does not end, or Keystone does not tell.
	At time.Time
}

// ErrNotTold is that Keystone does not tell when a login ends, though the login is good.
var ErrNotTold = errors.New("its end is not told")

// LoginExpiry returns when what the Session logs in with ends. Of a password each token tells it (user.password_expires_at). An
// application credential is read, by one request at each call, which its owner may unless a policy or the credential's access rules
// forbid it: then the error is ErrNotTold. Other logins have no end that Keystone tells. See
// https://docs.openstack.org/api-ref/identity/v3/#show-application-credential-details.
func (s *Session) LoginExpiry(ctx context.Context) (Expiry, error) {
	l, pc, _, err := s.ready(ctx)
	if err != nil {
		return Expiry{}, err
	}
	l.mu.Lock()
	h := l.holder
	l.mu.Unlock()
	e := Expiry{Of: l.settings.cfg.who()}
	switch l.settings.cfg.method() {
	case byPassword:
		e.Of, e.At = "the password of "+e.Of, h.passwordEnds
	case byApplicationCredential:
		id := h.identity.ApplicationCredentialID
		if id == "" { // an old Keystone does not tell
			id = l.settings.cfg.ApplicationCredentialID
		}
		if id != "" && h.user != "" {
			e.At, err = l.readExpiry(ctx, pc, h.user, id)
		}
	}
	return e, err
}

// readExpiry asks the Keystone of auth-url, as a login does: the catalog may name another, for others.
func (l *login) readExpiry(ctx context.Context, pc *gophercloud.ProviderClient, user, id string) (time.Time, error) {
	var answer struct {
		ApplicationCredential struct {
			ExpiresAt ending `json:"expires_at"`
		} `json:"application_credential"`
	}
	client := &gophercloud.ServiceClient{ProviderClient: pc, Endpoint: l.settings.auth.IdentityEndpoint}
	address := client.ServiceURL("users", url.PathEscape(user), "application_credentials", url.PathEscape(id))
	_, err := client.Get(ctx, address, &answer, nil) //nolint:bodyclose // Get closes what it decodes
	var refused gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &refused) && (refused.Actual == http.StatusForbidden || refused.Actual == http.StatusNotFound) {
		return time.Time{}, fmt.Errorf("%s: %w (%d from %s)", l.settings.cfg.who(), ErrNotTold, refused.Actual, strings.TrimSuffix(l.settings.auth.IdentityEndpoint, "/"))
	}
	if err != nil {
		return time.Time{}, l.explain(err)
	}
	return time.Time(answer.ApplicationCredential.ExpiresAt), nil
}

// ending is when a password or an application credential ends, as Keystone writes it: in UTC, without saying so. What is no such time,
// null as well, is zero: an odd end is no reason to refuse the token that it comes with.
type ending time.Time

// UnmarshalJSON never fails.
func (e *ending) UnmarshalJSON(data []byte) error {
	var text string
	_ = json.Unmarshal(data, &text)                                        // what is no text is no time
	for _, layout := range []string{"2006-01-02T15:04:05", time.RFC3339} { // both take fractions of a second
		if at, err := time.Parse(layout, text); err == nil {
			*e = ending(at)
			return nil
		}
	}
	return nil
}
