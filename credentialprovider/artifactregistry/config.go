package artifactregistry

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/gcp"
)

// section is the name in the configuration.
const section = "artifactregistry"

// Config is the section artifactregistry of the configuration. Without anything in it the Google
// credentials of the node are used for every registry.
type Config struct {
	// Identity is as whom the credentials are got.
	Identity credentialprovider.Identity `yaml:"identity"`
	// CredentialsFile is used in place of GOOGLE_APPLICATION_CREDENTIALS, gcloud's file and the
	// metadata server.
	CredentialsFile string `yaml:"credentialsFile"`
	// InstanceAccount is which service account of the instance the metadata server is asked for.
	InstanceAccount string `yaml:"instanceAccount"`
	// WorkloadIdentityProvider is, with the identity of service accounts, the provider of a
	// workload identity pool at which their tokens are exchanged.
	WorkloadIdentityProvider string `yaml:"workloadIdentityProvider"`
	// Impersonate is the Google service account to be on top of the identity; with that of
	// service accounts, for those that name none in an annotation.
	Impersonate string `yaml:"impersonate"`
	// Scope is the scope of the tokens, devstorage.read_only by default.
	Scope string `yaml:"scope"`
	// Mirrors are registries whose images come through one of Google's.
	Mirrors []credentialprovider.Mirror `yaml:"mirrors"`
}

const scopePrefix = "https://www.googleapis.com/auth/"

// scopes are those that pull, the narrowest first.
func scopes() []string {
	return []string{"devstorage.read_only", "cloud-platform.read-only", "cloud-platform"}
}

// scope is the full name of the scope to ask for.
func (c Config) scope() string {
	if c.Scope == "" {
		return scopePrefix + scopes()[0]
	}
	return scopePrefix + strings.TrimPrefix(c.Scope, scopePrefix)
}

// Audience returns for whom the tokens of service accounts have to be: by default that is the
// provider itself, or GKE's pool. It is "" while no provider is configured.
func (c Config) Audience() string {
	audience, err := auth.ProviderAudience(c.WorkloadIdentityProvider, "")
	if err != nil {
		return ""
	}
	if pool, ok := strings.CutPrefix(audience, "identitynamespace:"); ok {
		pool, _, _ = strings.Cut(pool, ":")
		return pool
	}
	return "https:" + audience
}

// check returns all mistakes.
func (c Config) check() error {
	var errs []error
	add := func(key string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", section, key, err))
		}
	}
	if c.Scope != "" && !slices.Contains(scopes(), strings.TrimPrefix(c.Scope, scopePrefix)) {
		add("scope", fmt.Errorf("%q is none for pulling; it has to be %s", c.Scope, strings.Join(scopes(), ", ")))
	}
	if c.Impersonate != "" {
		add("impersonate", auth.CheckAccount(c.Impersonate))
	}
	if c.InstanceAccount != "" {
		add("instanceAccount", auth.CheckInstanceAccount(c.InstanceAccount))
	}
	if c.InstanceAccount != "" && c.CredentialsFile != "" {
		add("instanceAccount", errors.New("it is for the metadata server, which credentialsFile takes the place of; remove one"))
	}
	if c.Identity == credentialprovider.ServiceAccountIdentity {
		_, err := auth.ProviderAudience(c.WorkloadIdentityProvider, "")
		if c.WorkloadIdentityProvider == "" {
			err = errors.New("it is needed with identity: serviceAccount; set it in the file of --config (projects/<project number>/locations/global/workloadIdentityPools/<pool>/providers/<provider>)")
		}
		add("workloadIdentityProvider", err)
		if c.CredentialsFile != "" || c.InstanceAccount != "" {
			add("credentialsFile and instanceAccount", errors.New("with identity: serviceAccount the node's credentials are not used; remove them"))
		}
	} else if c.WorkloadIdentityProvider != "" {
		add("workloadIdentityProvider", errors.New("it is for identity: serviceAccount; for the node, make a credentials file (external_account) with gcloud and set credentialsFile"))
	}
	_, err := c.mirrors()
	return errors.Join(append(errs, err)...)
}

// mirrors returns the registries by their upstreams.
func (c Config) mirrors() (map[string]string, error) {
	return credentialprovider.CheckMirrors(c.Mirrors, credentialprovider.MirrorRules{
		Section: section, Kind: "a registry of Google", Target: "registry of Google, such as europe-docker.pkg.dev",
		Serves: isGoogle, Leads: isGoogle,
	})
}
