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
	Mirrors []credentialprovider.Mirror `yaml:"mirrors"`
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
	_, err := c.mirrors()
	errs = append(errs, err)
	return errors.Join(errs...)
}

// mirrors returns the registries by their upstreams.
func (c Config) mirrors() (map[string]string, error) {
	return credentialprovider.CheckMirrors(c.Mirrors, credentialprovider.MirrorRules{
		Section: "ecr", Kind: "an ECR registry", Target: "private ECR registry, such as 123456789012.dkr.ecr.eu-central-1.amazonaws.com",
		Serves: func(registry string) bool { _, ok := parseHost(registry); return ok },
		Leads:  func(registry string) bool { r, ok := parseHost(registry); return ok && r.account != "" },
	})
}
