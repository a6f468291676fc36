// Package paperregistry is the kind of registries of docs/add-a-registry.md. No binary that is released has it.
package paperregistry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// domain ends the hosts of paper's registries.
const domain = ".registry.paper.example"

// Audience is for whom the tokens of service accounts are.
const Audience = "paper.example"

// Config is the section paper of the file of --config.
type Config struct {
	Identity credentialprovider.Identity `yaml:"identity"`
	// KeyFile has the node's key; not needed with the identity of service accounts.
	KeyFile string `yaml:"keyFile"`
}

// Provider serves paper's registries.
type Provider struct {
	cfg     Config
	options credentialprovider.Options
	remote  func(*http.Transport) // of tests
}

var _ credentialprovider.Provider = (*Provider)(nil)

// New checks the configuration and returns a Provider for it.
func New(cfg Config, o credentialprovider.Options) (*Provider, error) {
	if cfg.KeyFile == "" && cfg.Identity != credentialprovider.ServiceAccountIdentity {
		return nil, errors.New("keyFile is not set: name the file that has the node's key")
	}
	return &Provider{cfg: cfg, options: o}, nil
}

// Serves implements credentialprovider.Provider.
func (p *Provider) Serves(image credentialprovider.Image) bool {
	name, ok := strings.CutSuffix(image.Registry, domain)
	return ok && name != "" && !strings.Contains(name, ".")
}

// MatchImages implements credentialprovider.Provider.
func (p *Provider) MatchImages() []string { return []string{"*" + domain} }

// Describe implements credentialprovider.Provider.
func (p *Provider) Describe() string { return "paper serves <name>" + domain }

// key is what proves who asks: the service account's token, or else the node's key.
func (p *Provider) key(account *credentialprovider.ServiceAccount) (cloudauth.Secret, error) {
	if account != nil {
		return account.Token, nil
	}
	data, err := cloudauth.ReadFile(p.options.File(p.cfg.KeyFile))
	if err != nil {
		return cloudauth.Secret{}, fmt.Errorf("keyFile: %w; correct the path or who may read it", err)
	}
	return cloudauth.NewSecret(strings.TrimSpace(string(data))), nil
}

// Credentials implements credentialprovider.Provider.
func (p *Provider) Credentials(ctx context.Context, q credentialprovider.Query) (credentialprovider.Credentials, error) {
	key, err := p.key(q.ServiceAccount)
	if err != nil {
		return credentialprovider.Credentials{}, err
	}
	host := q.Image.Registry
	client := wire.NewClient(wire.Options{UserAgent: p.options.UserAgent, Timeout: p.options.Timeout, Remote: p.remote})
	defer client.CloseIdleConnections()
	answer, err := client.Do(ctx, wire.Request{URL: "https://" + host + "/token", Header: http.Header{"Authorization": {"Bearer " + key.Reveal()}}})
	if err != nil {
		return credentialprovider.Credentials{}, cloudauth.NewError(cloudauth.Unreachable, "%s", wire.Explain(host, err, "check the network and the proxy", key))
	}
	return credentials(host, answer)
}

// credentials reads the answer of a registry.
func credentials(host string, answer *wire.Response) (credentialprovider.Credentials, error) {
	if answer.Status != http.StatusOK {
		return credentialprovider.Credentials{}, cloudauth.NewError(cloudauth.Rejected, "%s refuses the key (%d %s); make a new one, and put it into the file of keyFile", host, answer.Status, http.StatusText(answer.Status))
	}
	var token struct {
		User     string           `json:"user"`
		Password cloudauth.Secret `json:"password"`
		Seconds  int              `json:"seconds"`
	}
	if json.Unmarshal(answer.Body, &token) != nil || token.User == "" || token.Password.IsEmpty() || token.Seconds <= 0 || token.Seconds > 24*60*60 {
		return credentialprovider.Credentials{}, cloudauth.NewError(cloudauth.Failed, "%s answers without a usable token; is a proxy or another registry in between?", host)
	}
	now := time.Now()
	return credentialprovider.Credentials{
		Username: token.User, Password: token.Password,
		Expires: now.Add(time.Duration(token.Seconds) * time.Second), Ahead: wire.Ahead(answer.Header, now),
	}, nil
}
