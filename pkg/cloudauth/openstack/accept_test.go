package openstack

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// What answers like Keystone, but without what a login needs, is none, and nothing of it is taken over.
func TestAnswersThatAreNoLogin(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{})
	for name, tt := range map[string]struct {
		id    string
		token map[string]any
		want  string
	}{
		"good":       {"t", map[string]any{"expires_at": "2030-01-01T00:00:00.000000Z", "catalog": []any{}}, ""},
		"no token":   {"", map[string]any{"expires_at": "2030-01-01T00:00:00.000000Z", "catalog": []any{}}, "without a token"},
		"no time":    {"t", map[string]any{"expires_at": "soon", "catalog": []any{}}, "Keystone"},
		"no catalog": {"t", map[string]any{"expires_at": "2030-01-01T00:00:00.000000Z", "catalog": "none"}, "Keystone"},
		"no user":    {"t", map[string]any{"expires_at": "2030-01-01T00:00:00.000000Z", "catalog": []any{}, "user": "none"}, "Keystone"},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, passwordConfig(sim), Options{}, nil).login()
			var got tokens.CreateResult
			got.Header, got.Body = http.Header{"X-Subject-Token": {tt.id}}, map[string]any{"token": tt.token}
			err := l.accept(got)
			if tt.want == "" {
				if err != nil || l.client == nil {
					t.Errorf("it is not taken: %v", err)
				}
				return
			}
			if AsError(err) == nil || !strings.Contains(err.Error(), tt.want) || l.client != nil || l.catalog != nil {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// Another service is told the id of an application credential, or nothing.
func TestIdentityWithoutTheIDOfItsCredential(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{})
	ac := sim.AddApplicationCredential("registry")
	s := open(t, Config{AuthURL: sim.AuthURL(), ApplicationCredentialName: ac.Name, ApplicationCredentialSecret: cloudauth.NewSecret(ac.Secret),
		Username: ossim.UserName, UserDomainName: "Default"}, Options{}, nil)
	if got, err := s.Identity(t.Context()); err != nil || got.ApplicationCredentialID != ac.ID || got.Secret.Reveal() != ac.Secret {
		t.Fatalf("got %+v, %v", got, err)
	}
	l := s.login()
	l.mu.Lock()
	l.holder.identity.ApplicationCredentialID = "" // as of a Keystone that does not tell
	l.mu.Unlock()
	got, err := s.Identity(t.Context())
	var own *Error
	if !errors.As(err, &own) || own.Reason != Misconfigured || got != (Identity{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}
