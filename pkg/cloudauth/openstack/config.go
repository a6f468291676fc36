package openstack

import (
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Config is the [Global] section of cloud.conf: who to be and where Keystone is. Everything
// is optional here; New says what is missing once clouds.yaml and the environment have
// filled the gaps.
type Config struct {
	// AuthURL is Keystone's URL, with or without /v3 at its end.
	AuthURL string `gcfg:"auth-url"`

	// UserID, or Username with a user domain, and Password: password authentication.
	UserID   string           `gcfg:"user-id"`
	Username string           `gcfg:"username"`
	Password cloudauth.Secret `gcfg:"password"`

	// TenantID, or TenantName with its domain, is the project to work in. The id wins.
	TenantID         string `gcfg:"tenant-id"`
	TenantName       string `gcfg:"tenant-name"`
	TenantDomainID   string `gcfg:"tenant-domain-id"`
	TenantDomainName string `gcfg:"tenant-domain-name"`

	// UserDomainID or UserDomainName is the domain of Username. The id wins.
	UserDomainID   string `gcfg:"user-domain-id"`
	UserDomainName string `gcfg:"user-domain-name"`

	// DomainID or DomainName stands in for a user or project domain that is not given, and is
	// the scope when no project is given.
	DomainID   string `gcfg:"domain-id"`
	DomainName string `gcfg:"domain-name"`

	// TrustID is a trust to act under; TrusteeID and TrusteePassword, when given, are used in
	// place of the user and the password.
	TrustID         string           `gcfg:"trust-id"`
	TrusteeID       string           `gcfg:"trustee-id"`
	TrusteePassword cloudauth.Secret `gcfg:"trustee-password"`

	// Region chooses the endpoints; empty takes the first of the catalog. EndpointType is the
	// interface: public (default), internal or admin.
	Region       string `gcfg:"region"`
	EndpointType string `gcfg:"os-endpoint-type"`

	// CAFile holds the PEM certificates to trust in place of the system's. CertFile and KeyFile
	// are a client certificate. TLSInsecure turns the checking of certificates off.
	CAFile      string   `gcfg:"ca-file"`
	CertFile    string   `gcfg:"cert-file"`
	KeyFile     string   `gcfg:"key-file"`
	TLSInsecure OnlyTrue `gcfg:"tls-insecure"`

	// Token is a token that someone else got; it cannot be renewed.
	Token cloudauth.Secret `gcfg:"token"`

	// UseClouds fills what is empty here from the entry Cloud (default: $OS_CLOUD) of
	// CloudsFile (default: $OS_CLIENT_CONFIG_FILE, or the usual places of clouds.yaml).
	UseClouds  bool   `gcfg:"use-clouds"`
	CloudsFile string `gcfg:"clouds-file"`
	Cloud      string `gcfg:"cloud"`

	// ApplicationCredentialID, or ApplicationCredentialName with a user, and its secret.
	ApplicationCredentialID     string           `gcfg:"application-credential-id"`
	ApplicationCredentialName   string           `gcfg:"application-credential-name"`
	ApplicationCredentialSecret cloudauth.Secret `gcfg:"application-credential-secret"`

	// IdentityProvider and Protocol (default: openid) are Keystone's names for the issuer of access
	// tokens (OpenID Connect) and how it takes them. AccessTokenFile holds one, for example a
	// service account's; the credential provider gets its tokens from the kubelet instead.
	IdentityProvider string `gcfg:"identity-provider"`
	Protocol         string `gcfg:"protocol"`
	AccessTokenFile  string `gcfg:"access-token-file"`

	// AccessToken is WithAccessToken's. It is no key: it would end within the hour.
	AccessToken cloudauth.Secret `gcfg:"-"`
}

// OnlyTrue is a bool of cloud.conf that only the word true sets: other controllers read it as a
// text, so that yes and 1 must not begin to turn a protection off.
type OnlyTrue bool

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *OnlyTrue) UnmarshalText(text []byte) error {
	*b = string(text) == "true"
	return nil
}

// Doubt is what is to be said of a value.
func (b *OnlyTrue) Doubt(value string) string {
	if value == "true" || value == "false" || value == "" {
		return ""
	}
	return "only true turns it on"
}

// Registry is a section [Registry "host:port"] of cloud.conf: how the kubelet's credential
// provider gets credentials for one image registry. The cloud controller manager reads it
// only in order to know it.
type Registry struct {
	// Type is "keppel" (the registry asks Keystone, so the node's own credentials are the
	// registry's) or "barbican" (the credentials are kept as a secret in Barbican).
	Type string `gcfg:"type"`
	// Secret is, for barbican, the secret's reference (URL), its id or its name.
	Secret string `gcfg:"secret"`
	// CacheDuration is how long the kubelet may keep the credentials, e.g. 10m or 0.
	// Nil leaves it to the kubelet's configuration.
	CacheDuration *time.Duration `gcfg:"cache-duration"`
}
