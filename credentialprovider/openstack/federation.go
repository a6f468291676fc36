package openstack

import (
	"errors"
	"fmt"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
)

// errKeppelToken is about a registry that has no way to take a service account's identity: Keppel reads a
// Keystone token of the header X-Auth-Token, which no container runtime sends.
var errKeppelToken = errors.New("keppel takes a user and a password or an application credential, and no token of a service account; " +
	"serve it by another entry with the identity node, or keep a login for it in Barbican (type = barbican in cloud.conf)")

// checkFederation returns what keeps service accounts from getting credentials, as far as that is known
// before there is a token.
func checkFederation(file string, c *cloudConf) error {
	if c.Global.IdentityProvider == "" {
		return fmt.Errorf("%s: [Global]: identity-provider is not set: with the identity of service accounts, write the name that Keystone has for the cluster's issuer (openstack identity provider list)", file)
	}
	return nil
}

// sessionOf logs in as the node, or as the service account and in the project that it names or else that
// of [Global].
func (p *Provider) sessionOf(account *credentialprovider.ServiceAccount) (*auth.Session, error) {
	if account == nil {
		return p.session, nil
	}
	cfg := p.global.WithAccessToken(account.Token)
	project, err := account.Annotation(ProjectAnnotation)
	if err != nil {
		return nil, err
	}
	if project != "" {
		if len(project) > 64 || strings.Trim(project, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			return nil, fmt.Errorf("the annotation %s of %s is no id of a project (openstack project list)", ProjectAnnotation, account)
		}
		cfg.TenantID, cfg.TenantName = project, ""
	}
	if cfg.TenantID == "" && cfg.TenantName == "" && !cfg.UseClouds {
		return nil, fmt.Errorf("nothing names the project of %s; set tenant-id or tenant-name in [Global] of cloud.conf, or annotate it with %s", account, ProjectAnnotation)
	}
	session, err := auth.New(cfg, p.options)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", account, err)
	}
	return session, nil
}
