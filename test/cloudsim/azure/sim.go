package azure

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
)

// Options configures a simulator. The zero value is a good one.
type Options struct {
	// TokenLifetime is how long a token of Entra ID lives, 1 hour by default.
	TokenLifetime time.Duration
	// RefreshLifetime is how long a registry's token lives, 3 hours by default as with ACR.
	RefreshLifetime time.Duration
}

// Sim is a running simulator. All methods may be called concurrently.
type Sim struct {
	*cloudsim.Front
	*cloudsim.Issuer
	opts Options

	mu         sync.Mutex // guards all below
	machine    []*identity
	identities map[string]*identity // by client id
	tokens     map[string]*issued   // of Entra ID, by value
	registries map[string]*Registry // by host
	refresh    map[string]*login    // of registries, by value
	assertions map[string]bool      // by jti: each may be used once
}

// Start starts a simulator without identities and registries.
func Start(opts Options) (*Sim, error) {
	if opts.TokenLifetime == 0 {
		opts.TokenLifetime = time.Hour
	}
	if opts.RefreshLifetime == 0 {
		opts.RefreshLifetime = 3 * time.Hour
	}
	s := &Sim{
		opts: opts, identities: map[string]*identity{}, tokens: map[string]*issued{},
		registries: map[string]*Registry{}, refresh: map[string]*login{}, assertions: map[string]bool{},
	}
	var err error
	if s.Issuer, err = cloudsim.NewIssuer(); err != nil {
		return nil, err
	}
	if s.Front, err = cloudsim.OpenFront(cloudsim.FrontOptions{Cloud: "Azure", Knows: s.knows, Handle: s.answer}); err != nil {
		return nil, err
	}
	return s, nil
}

// Env are environment variables that make a process take this simulator for Azure.
func (s *Sim) Env() []string {
	return append(s.ProxyEnv(), "AZURE_POD_IDENTITY_AUTHORITY_HOST="+s.URL())
}

// knows reports whether Azure has a host.
func (s *Sim) knows(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, authority := authorities[host]
	return authority || s.registries[host] != nil
}

// authorities are the clouds of Entra ID's names.
var authorities = map[string]string{
	"login.microsoftonline.com": "public", "login.partner.microsoftonline.cn": "china", "login.chinacloudapi.cn": "china", "login.microsoftonline.us": "usgov",
	"login.stack.example": "stack",
}

// exchangeAudiences are what tokens of other issuers have to be for, by cloud.
var exchangeAudiences = map[string]string{
	"public": "api://AzureADTokenExchange", "china": "api://AzureADTokenExchangeChina", "usgov": "api://AzureADTokenExchangeUSGov",
	"stack": "api://AzureADTokenExchange",
}

// newJWT makes a token that only this simulator knows: what it says can be read, but its signature is a
// random number.
func newJWT(claims map[string]any) string {
	data, err := json.Marshal(claims)
	if err != nil {
		data = []byte("{}")
	}
	signature := make([]byte, 256)
	_, _ = rand.Read(signature) // never fails
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(`{"typ":"JWT","alg":"RS256","kid":"sim"}`)) + "." + enc.EncodeToString(data) + "." + enc.EncodeToString(signature)
}

func newGUID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
