package vsphere

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Credentials are what a vCenter knows somebody by. The zero value is none.
type Credentials struct {
	// User is the user's name, or a certificate in PEM; Password is the password, or the certificate's key in PEM.
	User     string
	Password cloudauth.Secret
	// SharedURL is a service that gives tickets of a session which it keeps; then there is no user. SharedToken is what it knows
	// the asker by; when empty, the token of the pod's ServiceAccount.
	SharedURL   string
	SharedToken cloudauth.Secret
}

// complete reports whether a login can be tried.
func (c *Credentials) complete() bool {
	return c.SharedURL != "" || c.User != "" && !c.Password.IsEmpty()
}

// Equal reports whether both are the same.
func (c *Credentials) Equal(o *Credentials) bool {
	return c.User == o.User && c.Password.Equal(o.Password) && c.SharedURL == o.SharedURL && c.SharedToken.Equal(o.SharedToken)
}

// The endings of a Secret's keys: ADDRESS.username and so on, which an address of IPv6, with its colons, cannot have.
const (
	endUser, endPassword    = ".username", ".password"
	endShared, endSharedKey = ".vc-session-manager-url", ".vc-session-manager-token"
)

// The beginnings of those for any address: server_ID, username_ID, password_ID.
const beginServer, beginUser, beginPassword = "server_", "username_", "password_"

// maxEntries is how many keys of a Secret are looked at; one has at most 1 MiB.
const maxEntries = 10_000

// FromSecret finds the credentials for the server in the data of a Secret of the existing manager's form. Names of servers are
// case-sensitive there, and here only where two differ in nothing else. Line ends after values do not count. The error says
// which keys are missing, and shows no value.
func FromSecret(data map[string][]byte, server string) (Credentials, error) {
	if len(data) > maxEntries {
		return Credentials{}, fmt.Errorf("it has more than %d keys", maxEntries)
	}
	value := func(key string) string { return strings.TrimRight(string(data[key]), "\r\n") }
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		var out Credentials
		for _, key := range slices.Sorted(maps.Keys(data)) {
			switch {
			case same(key, server+endUser):
				out.User = value(key)
			case same(key, server+endPassword):
				out.Password = cloudauth.NewSecret(value(key))
			case same(key, server+endShared):
				out.SharedURL = value(key)
			case same(key, server+endSharedKey):
				out.SharedToken = cloudauth.NewSecret(value(key))
			case strings.HasPrefix(key, beginServer) && same(value(key), server):
				id := strings.TrimPrefix(key, beginServer)
				out.User, out.Password = value(beginUser+id), cloudauth.NewSecret(value(beginPassword+id))
				if !out.complete() {
					return Credentials{}, fmt.Errorf("it has %s, but not both, %s%s and %s%s", key, beginUser, id, beginPassword, id)
				}
			}
		}
		if out.complete() {
			return out, nil
		}
		if out.User != "" || !out.Password.IsEmpty() {
			return Credentials{}, fmt.Errorf("it does not have both, %s%s and %s%s", server, endUser, server, endPassword)
		}
	}
	if len(data) == 0 {
		return Credentials{}, errors.New("it is empty")
	}
	return Credentials{}, fmt.Errorf("it has neither %s%s and %s%s, nor a server_ID that is %s", server, endUser, server, endPassword, server)
}
