//go:build !no_azure

package config

import (
	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/acr"
)

// azureSections are the sections of the file of --config about registries of Azure.
type azureSections struct {
	ACR *acr.Config `yaml:"acr"`
}

func acrSections() []section {
	return []section{{
		name:   "acr",
		enable: func(c *Config) { c.ACR = orNew(c.ACR) },
		identity: func(c *Config) *credentialprovider.Identity {
			return fieldOf(c.ACR, func(s *acr.Config) *credentialprovider.Identity { return &s.Identity })
		},
		audience:    func(c *Config) string { return c.ACR.TokenAudience() },
		annotations: []string{acr.ClientAnnotation, acr.TenantAnnotation, acr.PeerClientAnnotation, acr.PeerTenantAnnotation},
		open: func(c *Config, o credentialprovider.Options) (credentialprovider.Provider, []string, error) {
			p, err := acr.New(*c.ACR, o)
			return opened(p, nil, err)
		},
		files: func(c *Config) []File {
			return []File{
				{"clientSecretFile", c.ACR.ClientSecretFile},
				{"clientCertificateFile", c.ACR.ClientCertificateFile},
				{"clientCertificatePasswordFile", c.ACR.ClientCertificatePasswordFile},
				{"federatedTokenFile", c.ACR.FederatedTokenFile},
				{"cloudConfig", c.ACR.CloudConfig},
			}
		},
	}}
}
