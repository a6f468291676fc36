package acr

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/azure"
)

// Config is the section acr of the configuration. Without anything in it the Azure identity of the
// node is used for every registry.
type Config struct {
	// Identity is as whom the credentials are got.
	Identity credentialprovider.Identity `yaml:"identity"`
	// Config is whose identity it is and in which cloud. With the identity of service accounts, ClientID and
	// TenantID are those of service accounts that name none in an annotation, and nothing in it may say more.
	auth.Config `yaml:",inline"`
	// Audience is what the tokens of Entra ID are asked for, in place of container registries.
	Audience string `yaml:"audience"`
	// Registries are login servers besides those of ACR's domains, as host or host:port.
	Registries []string `yaml:"registries"`
	// Mirrors are registries whose images come through one of these.
	Mirrors []credentialprovider.Mirror `yaml:"mirrors"`
}

// check returns all mistakes, and by the registry that images name, the one to log in to.
func (c Config) check() (map[string]registry, error) {
	var errs []error
	add := func(where string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("acr: %s: %w", where, err))
		}
	}
	// In the section they are not another's, so that the section's name has to be before each of them.
	if joined, ok := c.Check().(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			errs = append(errs, fmt.Errorf("acr: %w", err))
		}
	}
	if c.Identity == credentialprovider.ServiceAccountIdentity && c.HasIdentity() {
		add("identity", errors.New("with serviceAccount the node's identity is not used; of its settings, only cloud, authorityHost, tenantID and clientID may stay"))
	}
	if c.Identity != credentialprovider.ServiceAccountIdentity && c.TenantID != "" && c.ClientID != "" && !c.HasIdentity() {
		add("clientID", errors.New("nothing proves to be this application; add clientSecretFile, clientCertificateFile or federatedTokenFile, or remove tenantID if it is a managed identity"))
	}
	if c.Audience != "" {
		add("audience", checkAudience(c.Audience))
	}
	all := map[string]registry{}
	for _, text := range c.Registries {
		host, err := credentialprovider.NormalRegistry(text)
		add("registries", err)
		if _, known := parseHost(host); known {
			add("registries", fmt.Errorf("%s is known by its name; remove it", host))
		}
		host = withoutPort443(host)
		all[host] = registry{host: host, login: host}
	}
	find := func(host string) (registry, bool) {
		r, ok := all[withoutPort443(host)]
		if !ok {
			r, ok = parseHost(host)
		}
		return r, ok
	}
	serves := func(host string) bool { _, ok := find(host); return ok }
	mirrors, err := credentialprovider.CheckMirrors(c.Mirrors, credentialprovider.MirrorRules{
		Section: "acr", Kind: "a registry of ACR or among registries", Target: "registry of ACR, such as contoso.azurecr.io, nor among registries",
		Serves: serves, Leads: serves,
	})
	errs = append(errs, err)
	for upstream, host := range mirrors {
		all[withoutPort443(upstream)], _ = find(host)
	}
	return all, errors.Join(errs...)
}

// TokenAudience is what the tokens of service accounts have to be for. Where the configuration names no
// cloud it is that of the public one.
func (c Config) TokenAudience() string { return c.CloudOf().ExchangeAudience }

// checkAudience says what is wrong with an audience, which is a URI.
func checkAudience(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "api" || u.Host == "" || strings.HasSuffix(text, "/.default") || strings.ContainsAny(text, " ?#") {
		return fmt.Errorf("%q is no audience, such as %s", cloudauth.Excerpt(text, 100), audience)
	}
	return nil
}
