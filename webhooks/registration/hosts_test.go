package registration_test

import (
	"slices"
	"testing"

	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

// The certificate is for the host of the URL as well, where there is one.
func TestHosts(t *testing.T) {
	for at, want := range map[string][]string{
		"": nil, "https://webhooks.example.com:443": {"webhooks.example.com"}, "https://[2001:db8::1]:443/": {"2001:db8::1"}, "https://:443": nil, "%": nil,
	} {
		if got := (&registration.Options{URL: at}).Hosts(); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", at, got, want)
		}
	}
}
