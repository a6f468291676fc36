//go:build !no_azure

package main

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
		enable: func(c *config) { c.ACR = orNew(c.ACR) },
		identity: func(c *config) *credentialprovider.Identity {
			return fieldOf(c.ACR, func(s *acr.Config) *credentialprovider.Identity { return &s.Identity })
		},
		audience:    func(c *config) string { return c.ACR.TokenAudience() },
		annotations: []string{acr.ClientAnnotation, acr.TenantAnnotation, acr.PeerClientAnnotation, acr.PeerTenantAnnotation},
		open: func(c *config, o credentialprovider.Options) (credentialprovider.Provider, []string, error) {
			p, err := acr.New(*c.ACR, o)
			return opened(p, nil, err)
		},
		files: func(c *config) []namedFile {
			return []namedFile{
				{"acr", "clientSecretFile", c.ACR.ClientSecretFile},
				{"acr", "clientCertificateFile", c.ACR.ClientCertificateFile},
				{"acr", "clientCertificatePasswordFile", c.ACR.ClientCertificatePasswordFile},
				{"acr", "federatedTokenFile", c.ACR.FederatedTokenFile},
				{"acr", "cloudConfig", c.ACR.CloudConfig},
			}
		},
	}}
}
