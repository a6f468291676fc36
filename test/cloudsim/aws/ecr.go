package aws

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// The prefixes of X-Amz-Target.
const (
	ecrTarget       = "AmazonEC2ContainerRegistry_V20150921"
	ecrPublicTarget = "SpencerFrontendService"
)

// registryToken is a password for registries.
type registryToken struct {
	principal *Principal
	region    string
	public    bool
	expires   time.Time
}

type authorizationData struct {
	Token         string  `json:"authorizationToken"`
	ExpiresAt     float64 `json:"expiresAt"`
	ProxyEndpoint string  `json:"proxyEndpoint,omitempty"`
}

// newToken makes a registry token. mu held.
func (s *Sim) newToken(c *call, public bool) authorizationData {
	password := "eyJwYXlsb2FkIjoi" + randomText(200)
	expires := time.Now().Add(s.opts.TokenLifetime).Truncate(time.Millisecond)
	s.registry[password] = &registryToken{principal: c.caller.identity.principal, region: c.caller.region, public: public, expires: expires}
	return authorizationData{Token: base64.StdEncoding.EncodeToString([]byte("AWS:" + password)), ExpiresAt: float64(expires.UnixMilli()) / 1000}
}

// privateToken is ECR's GetAuthorizationToken.
func (s *Sim) privateToken(c *call) (*reply, error) {
	var in struct {
		RegistryIDs []string `json:"registryIds"`
	}
	if err := json.Unmarshal(c.body, &in); err != nil {
		return nil, errorf(http.StatusBadRequest, "SerializationException", "%v", err)
	}
	if err := c.partition(c.caller.region); err != nil {
		return nil, err
	}
	if err := c.allow("ecr:GetAuthorizationToken", "*"); err != nil {
		return nil, err
	}
	if len(in.RegistryIDs) == 0 {
		in.RegistryIDs = []string{c.caller.identity.principal.Account}
	}
	var data []authorizationData
	for _, account := range in.RegistryIDs {
		d := s.newToken(c, false)
		d.ProxyEndpoint = fmt.Sprintf("https://%s.dkr.ecr.%s.%s", account, c.caller.region, suffixOf(c.caller.region))
		data = append(data, d)
	}
	return jsonReply(http.StatusOK, "application/x-amz-json-1.1", map[string]any{"authorizationData": data}), nil
}

// publicToken is ECR Public's GetAuthorizationToken.
func (s *Sim) publicToken(c *call) (*reply, error) {
	if err := c.partition(c.caller.region); err != nil {
		return nil, err
	}
	for _, action := range []string{"ecr-public:GetAuthorizationToken", "sts:GetServiceBearerToken"} {
		if err := c.allow(action, "*"); err != nil {
			return nil, err
		}
	}
	return jsonReply(http.StatusOK, "application/x-amz-json-1.1", map[string]any{"authorizationData": s.newToken(c, true)}), nil
}

func suffixOf(region string) string {
	for _, p := range partitions() {
		if p.regions.MatchString(region) {
			return p.suffix
		}
	}
	return ""
}

// Pull says whether user and password open the registry of an account ("" is the public
// registry) in a region, nil if they do.
func (s *Sim) Pull(user, password, account, region string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.registry[password]
	switch {
	case user != "AWS" || t == nil:
		return errors.New("401: Your authorization token has expired or is not valid")
	case time.Now().After(t.expires):
		return errors.New("403: Your authorization token has expired. Reauthenticate and try again")
	case t.public != (account == ""):
		return errors.New("401: the token is for another kind of registry")
	case !t.public && t.region != region:
		return fmt.Errorf("400: the token is for region %s", t.region)
	case !t.public && !slices.Contains(append([]string{t.principal.Account}, t.principal.Registries...), account):
		return fmt.Errorf("403: %s may not pull from account %s", t.principal.Name, account)
	}
	return nil
}

// Registry returns what proves a user and password to belong to a region's registries, in the
// form that a test's registry takes.
func (s *Sim) Registry(account, region string) func(user, password string) bool {
	return func(user, password string) bool { return s.Pull(user, password, account, region) == nil }
}
