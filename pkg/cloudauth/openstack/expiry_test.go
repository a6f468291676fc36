package openstack

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// TestLoginExpiry: what a login is made with ends when Keystone says, and costs a request only where the token does not tell.
func TestLoginExpiry(t *testing.T) {
	sim := ossim.ForTest(t)
	end := time.Date(2031, 2, 3, 4, 5, 6, 789000000, time.UTC)
	ac := newAppCredential(t, sim, "ends")
	byID := Config{AuthURL: sim.AuthURL(), ApplicationCredentialID: ac.ID, ApplicationCredentialSecret: cloudauth.NewSecret(ac.Secret)}
	byName := Config{AuthURL: sim.AuthURL(), ApplicationCredentialName: ac.Name, ApplicationCredentialSecret: cloudauth.NewSecret(ac.Secret), Username: ossim.UserName, UserDomainName: "Default"}
	for _, tt := range []struct {
		name, of string
		cfg      Config
		requests int // after the login
	}{
		{"application credential", "application credential " + ac.ID, byID, 1},
		{"application credential by name", `application credential "ends"`, byName, 1},
		{"password", `the password of user "` + ossim.UserName + `"`, passwordConfig(sim), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, want := range []time.Time{{}, end} {
				sim.ExpireApplicationCredential(ac.ID, want)
				sim.ExpirePassword(ossim.UserName, want)
				s := open(t, tt.cfg, Options{}, nil)
				if err := s.Check(t.Context()); err != nil {
					t.Fatal(err)
				}
				sim.ResetRequests()
				got, err := s.LoginExpiry(t.Context())
				if err != nil || got.Of != tt.of || !got.At.Equal(want) {
					t.Errorf("got %+v, %v, want %s, %s", got, err, tt.of, want)
				}
				if n := len(sim.Requests()); n != tt.requests {
					t.Errorf("%d requests, want %d", n, tt.requests)
				}
			}
		})
	}
}

// TestLoginExpiryNotTold: a Keystone that does not tell is no failed login.
func TestLoginExpiryNotTold(t *testing.T) {
	sim := ossim.ForTest(t)
	ac := newAppCredential(t, sim, "quiet")
	s := open(t, Config{AuthURL: sim.AuthURL(), ApplicationCredentialID: ac.ID, ApplicationCredentialSecret: cloudauth.NewSecret(ac.Secret)}, Options{}, nil)
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound} {
		remove := sim.AddFault(ossim.Fault{Service: "identity", Path: "/users/*/application_credentials/*", Status: status})
		got, err := s.LoginExpiry(t.Context())
		remove()
		if !errors.Is(err, ErrNotTold) || !got.At.IsZero() || !strings.HasPrefix(err.Error(), "application credential "+ac.ID+": ") {
			t.Errorf("%d: got %+v, %v", status, got, err)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("the login is said to be bad: %v", err)
		}
	}
	for _, odd := range []string{"17", `"soon"`, `{}`, `null`} {
		remove := sim.AddFault(ossim.Fault{Service: "identity", Path: "/users/*/application_credentials/*", Body: `{"application_credential": {"expires_at": ` + odd + `}}`})
		got, err := s.LoginExpiry(t.Context())
		remove()
		if err != nil || !got.At.IsZero() {
			t.Errorf("%s: got %+v, %v", odd, got, err)
		}
	}
}
