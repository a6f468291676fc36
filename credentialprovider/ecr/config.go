package ecr

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/aws"
)

// Config is the section ecr of the configuration. Without anything in it the AWS credentials of the
// node are used for every registry.
type Config struct {
	// Identity is as whom the credentials are got.
	Identity credentialprovider.Identity `yaml:"identity"`
	// Profile is the profile of the AWS config files to use in place of AWS_PROFILE or "default".
	Profile string `yaml:"profile"`
	// STSRegion is the region whose STS is asked, in place of AWS_REGION, the profile's or the registry's.
	STSRegion string `yaml:"stsRegion"`
	// RoleARN is, with the identity of service accounts, the role of those that name none in an
	// annotation; AWS_ECR_ROLE_ARN says the same.
	RoleARN string `yaml:"roleARN"`
	// Accounts are, by the account of a registry, the roles to assume for it on top of the identity.
	Accounts map[string]auth.Role `yaml:"accounts"`
	// Mirrors are registries whose images come through an ECR registry.
	Mirrors []Mirror `yaml:"mirrors"`
}

// Mirror says that images of one registry come through an ECR registry (a pull-through cache), to
// which the container runtime redirects them.
type Mirror struct {
	// Upstream is the registry that images name, as host or host:port.
	Upstream string `yaml:"upstream"`
	// Registry is the ECR registry whose credentials they need.
	Registry string `yaml:"registry"`
}

// check returns all mistakes.
func (c Config) check() error {
	var errs []error
	add := func(where string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("ecr: %s: %w", where, err))
		}
	}
	if c.STSRegion != "" {
		add("stsRegion", auth.CheckRegion(c.STSRegion))
	}
	if c.RoleARN != "" {
		add("roleARN", auth.CheckRoleARN(c.RoleARN))
	}
	if c.RoleARN != "" && c.Identity != credentialprovider.ServiceAccountIdentity {
		add("roleARN", errors.New("it is for identity: serviceAccount; for a registry's account, write the role under accounts"))
	}
	if c.Profile != "" && c.Identity == credentialprovider.ServiceAccountIdentity {
		add("profile", errors.New("with identity: serviceAccount the AWS config files are not used; remove it"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Accounts)) {
		if len(name) != 12 || strings.Trim(name, "0123456789") != "" {
			add("accounts", fmt.Errorf("%q is no AWS account, such as \"123456789012\" (in quotes)", name))
		}
		add("accounts: "+name, c.Accounts[name].Check())
	}
	seen := map[string]bool{}
	for _, m := range c.Mirrors {
		upstream, err := credentialprovider.NormalRegistry(m.Upstream)
		add("mirrors: upstream", err)
		if _, known := parseHost(upstream); known {
			add("mirrors", fmt.Errorf("upstream %s is an ECR registry itself; remove it", upstream))
		}
		if seen[upstream] {
			add("mirrors", fmt.Errorf("upstream %s is there twice; remove one", upstream))
		}
		seen[upstream] = true
		normal, err := credentialprovider.NormalRegistry(m.Registry)
		add("mirrors: registry", err)
		if r, known := parseHost(normal); err == nil && (!known || r.account == "") {
			add("mirrors", fmt.Errorf("registry %s is no private ECR registry, such as 123456789012.dkr.ecr.eu-central-1.amazonaws.com", normal))
		}
	}
	return errors.Join(errs...)
}
