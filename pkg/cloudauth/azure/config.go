package azure

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Config says as whom to log in, and where. The zero Config leaves it to the environment.
type Config struct {
	// Cloud is one of Azure's clouds by its name; empty takes the authority's or else DefaultCloud.
	Cloud string `yaml:"cloud"`
	// AuthorityHost is where Entra ID is, for clouds that are not known by name; empty takes
	// AZURE_AUTHORITY_HOST or else the cloud's.
	AuthorityHost string `yaml:"authorityHost"`
	// TenantID is the directory of the application. Empty takes AZURE_TENANT_ID, where the application is the
	// environment's or the one of FederatedToken.
	TenantID string `yaml:"tenantID"`
	// ClientID is the application's, or, where there is nothing to prove to be it, that of a user-assigned
	// managed identity, which ObjectID or ResourceID can name in its place.
	ClientID   string `yaml:"clientID"`
	ObjectID   string `yaml:"objectID"`
	ResourceID string `yaml:"resourceID"`
	// ClientSecretFile holds the application's secret.
	ClientSecretFile string `yaml:"clientSecretFile"`
	// ClientCertificateFile holds the application's certificate with its key, PEM or PKCS#12, and
	// ClientCertificatePasswordFile the password of the latter.
	ClientCertificateFile         string `yaml:"clientCertificateFile"`
	ClientCertificatePasswordFile string `yaml:"clientCertificatePasswordFile"`
	// SendCertificateChain sends the certificates in every login, for applications that trust a subject
	// and issuer and no single certificate.
	SendCertificateChain bool `yaml:"sendCertificateChain"`
	// FederatedTokenFile holds a token of an issuer that the application trusts.
	FederatedTokenFile string `yaml:"federatedTokenFile"`
	// CloudConfig is an azure.json, Azure's cloud config of Kubernetes, that names cloud and identity.
	CloudConfig string `yaml:"cloudConfig"`

	// FederatedToken is used in place of all other sources: nothing but the cloud and the tenant is
	// looked for elsewhere.
	FederatedToken cloudauth.Secret `yaml:"-"`
	// DefaultCloud is the cloud where nothing else says one; the zero Cloud is Public.
	DefaultCloud Cloud `yaml:"-"`
}

// Options are the parts of a Session that are the program's.
type Options struct {
	// UserAgent is sent with every request.
	UserAgent string
	// RequestTimeout bounds each HTTP request; 0 means 30 s.
	RequestTimeout time.Duration
	// Observe is told of every token that was asked for: how long it took, when it ends, and the error. Nil is for no
	// one; it must not block.
	Observe func(took time.Duration, expires time.Time, err error)

	backoff time.Duration         // as wire.Options has it
	remote  func(*http.Transport) // as wire.Options has it
	now     func() time.Time      // nil means time.Now
}

// Check returns all mistakes that can be found without reading files or the environment.
func (c Config) Check() error {
	var errs []error
	add := func(key, value string, check func(string) error) {
		if value == "" {
			return
		}
		if err := check(value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	add("cloud", c.Cloud, func(s string) error { _, err := CloudNamed(s); return err })
	add("authorityHost", c.AuthorityHost, func(s string) error {
		host, of, err := parseAuthority(s)
		if named, unknown := CloudNamed(c.Cloud); err == nil && unknown == nil && named != of {
			err = fmt.Errorf("%s is not of %s; remove one of authorityHost and cloud", host, named.Name)
		}
		return err
	})
	add("tenantID", c.TenantID, CheckTenant)
	add("clientID", c.ClientID, CheckID)
	add("objectID", c.ObjectID, CheckID)
	add("resourceID", c.ResourceID, checkResourceID)
	if c.ClientCertificateFile == "" && (c.ClientCertificatePasswordFile != "" || c.SendCertificateChain) {
		errs = append(errs, errors.New("clientCertificatePasswordFile and sendCertificateChain are for clientCertificateFile, which is missing"))
	}
	_, err := c.settings().choose("the configuration", configKeys)
	return errors.Join(append(errs, err)...)
}

// HasIdentity reports whether it says more than the cloud and the tenant and, for an application, its id:
// who it is.
func (c Config) HasIdentity() bool {
	return c.ObjectID != "" || c.ResourceID != "" || c.ClientSecretFile != "" || c.ClientCertificateFile != "" || c.FederatedTokenFile != "" || c.CloudConfig != ""
}

// CloudOf returns the cloud that the configuration names, or else DefaultCloud or Public. What is not
// known by name has the public cloud's conventions.
func (c Config) CloudOf() Cloud {
	_, of, _ := parseAuthority(c.AuthorityHost) // a mistake is Check's to tell
	if named, err := CloudNamed(c.Cloud); err == nil {
		of = named
	}
	for _, cloud := range []Cloud{of, c.DefaultCloud} {
		if cloud != (Cloud{}) {
			return cloud
		}
	}
	return Public
}

// settings are what a Config says of the identity.
func (c Config) settings() settings {
	return settings{
		tenant: c.TenantID, client: c.ClientID, object: c.ObjectID, resource: c.ResourceID,
		secretFile: c.ClientSecretFile, certFile: c.ClientCertificateFile, certPasswordFile: c.ClientCertificatePasswordFile, sendChain: c.SendCertificateChain,
		tokenFile: c.FederatedTokenFile, cloudConfig: c.CloudConfig,
	}
}
