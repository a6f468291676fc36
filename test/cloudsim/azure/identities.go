package azure

import (
	"crypto/x509"
	"maps"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
)

// Application is a service principal, or a managed identity.
type Application struct {
	// Cloud is "public" (default), "china", "usgov" or "stack".
	Cloud string
	// Tenant is its directory's id; a new one by default.
	Tenant string
	// Name is of a managed identity: it ends its resource id.
	Name string
	// Secrets are its client secrets by value, with when they end; the zero time is never.
	Secrets map[string]time.Time
	// Certificates are those registered with it.
	Certificates []*x509.Certificate
	// Subjects are those of the cluster's tokens that it trusts (federated credentials).
	Subjects []string
}

// Identity is how an application is known.
type Identity struct{ Tenant, ClientID, ObjectID, ResourceID string }

type identity struct {
	Application
	Identity
	systemAssigned bool
}

// issued is an access token of Entra ID.
type issued struct {
	of       *identity
	audience string
	expires  time.Time
}

// AddApplication adds an application.
func (s *Sim) AddApplication(a Application) Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(a).Identity
}

// AddManagedIdentity adds a user-assigned managed identity and assigns it to the machine.
func (s *Sim) AddManagedIdentity(a Application) Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.add(a)
	s.machine = append(s.machine, id)
	return id.Identity
}

// SetSystemIdentity turns on the machine's system-assigned identity.
func (s *Sim) SetSystemIdentity(a Application) Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.add(a)
	id.systemAssigned = true
	s.machine = append(s.machine, id)
	return id.Identity
}

// add adds an identity. mu held.
func (s *Sim) add(a Application) *identity {
	if a.Cloud == "" {
		a.Cloud = "public"
	}
	if a.Tenant == "" {
		a.Tenant = newGUID()
	}
	id := &identity{Application: a, Identity: Identity{Tenant: a.Tenant, ClientID: newGUID(), ObjectID: newGUID()}}
	if a.Name != "" {
		id.ResourceID = "/subscriptions/" + newGUID() + "/resourceGroups/nodes/providers/Microsoft.ManagedIdentity/userAssignedIdentities/" + a.Name
	}
	s.identities[id.ClientID] = id
	return id
}

// hasTenant reports whether a cloud has a tenant. mu held.
func (s *Sim) hasTenant(cloud, tenant string) bool {
	for _, id := range s.identities {
		if id.Cloud == cloud && id.Identity.Tenant == tenant {
			return true
		}
	}
	return false
}

// Audiences returns what tokens were given out for, each once.
func (s *Sim) Audiences() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]bool{}
	for _, t := range s.tokens {
		all[t.audience] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// issue makes an access token. mu held.
func (s *Sim) issue(id *identity, audience string) (string, time.Time) {
	expires := time.Now().Add(s.opts.TokenLifetime).Truncate(time.Second)
	token := newJWT(map[string]any{
		"aud": audience, "iss": "https://sts.windows.net/" + id.Identity.Tenant + "/", "tid": id.Identity.Tenant, "appid": id.ClientID, "oid": id.ObjectID, "exp": expires.Unix(),
	})
	s.tokens[token] = &issued{of: id, audience: audience, expires: expires}
	return token, expires
}

// TokenClaims are what a service account's token says.
type TokenClaims = cloudsim.TokenClaims
