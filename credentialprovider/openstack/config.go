package openstack

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/gcfg"
)

// The types of registries.
const (
	typeKeppel   = "keppel"
	typeBarbican = "barbican"
)

// Config is the section openstack of the configuration.
type Config struct {
	// Identity is as whom the credentials are got: as the login of [Global], or as the pod's service
	// account by Keystone's federation (identity-provider and protocol of [Global]).
	Identity credentialprovider.Identity `yaml:"identity"`
	// CloudConfig is the cloud.conf with the login and the registries.
	CloudConfig string `yaml:"cloudConfig"`
}

// DefaultCloudConfig is where cloud.conf is looked for unless Config says otherwise.
const DefaultCloudConfig = "/etc/isthmus/credential-provider/cloud.conf"

// cloudConf is what is read of cloud.conf.
type cloudConf struct {
	Global   auth.Config
	Registry map[string]*auth.Registry
}

// load reads cloud.conf. The warnings are about keys that have no effect.
func load(file string) (*cloudConf, []string, error) {
	data, err := cloudauth.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("cloud.conf cannot be read: %w; name it with --cloud-config, or with cloudConfig in the section openstack of --config", err)
	}
	var c cloudConf
	warnings, err := gcfg.DecodePart(file, data, &c)
	if err != nil {
		return nil, warnings, err
	}
	return &c, warnings, c.check(file)
}

// check returns all mistakes in the registries' sections.
func (c *cloudConf) check(file string) error {
	var errs []error
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Registry)) {
		for _, err := range checkRegistry(name, c.Registry[name]) {
			errs = append(errs, fmt.Errorf("%s: [Registry %q] %w", file, name, err))
		}
		normal, err := credentialprovider.NormalRegistry(name)
		if err != nil {
			continue
		}
		if other, twice := seen[normal]; twice {
			errs = append(errs, fmt.Errorf("%s: [Registry %q] and [Registry %q] are the same registry; remove one", file, other, name))
		}
		seen[normal] = name
	}
	return errors.Join(errs...)
}

func checkRegistry(name string, r *auth.Registry) []error {
	var errs []error
	if _, err := credentialprovider.NormalRegistry(name); err != nil {
		errs = append(errs, err)
	}
	switch r.Type {
	case typeKeppel:
		if r.Secret != "" {
			errs = append(errs, errors.New("secret: a keppel registry takes the login of [Global]; remove secret or set type = barbican"))
		}
	case typeBarbican:
		if r.Secret == "" {
			errs = append(errs, errors.New("secret: not set; name the Barbican secret by its reference, id or name"))
		}
	case "":
		errs = append(errs, errors.New("type: not set; it has to be keppel or barbican"))
	default:
		errs = append(errs, fmt.Errorf("type: %q is not known; it has to be keppel or barbican", r.Type))
	}
	if r.CacheDuration != nil && *r.CacheDuration < 0 {
		errs = append(errs, errors.New("cache-duration: has to be 0 or longer"))
	}
	return errs
}
