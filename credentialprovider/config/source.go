package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
)

// Source is where the configuration comes from: a file, or what flags say in its place.
type Source struct {
	// File is that of --config.
	File string
	// Registries, Identity and CloudConfig are the flags of these names.
	Registries, Identity, CloudConfig string
}

// Check finds what does not go together. It reads no file.
func (s Source) Check() error {
	switch {
	case s.File != "" && (s.Registries != "" || s.Identity != "" || s.CloudConfig != ""):
		return errors.New("--config holds everything; remove --registries, --identity and --cloud-config")
	case s.File != "":
		return nil
	case s.Registries == "" && s.CloudConfig == "":
		return fmt.Errorf("nothing says which registries to serve; give --registries=%s or --config FILE (see --help)", Registries()[0])
	}
	_, err := s.Read()
	return err
}

// Read returns the configuration.
func (s Source) Read() (*Config, error) {
	if s.File != "" {
		return read(s.File)
	}
	identity, err := credentialprovider.ParseIdentity(s.Identity)
	if err != nil {
		return nil, fmt.Errorf("--identity: %w", err)
	}
	names := strings.Split(s.Registries, ",")
	if s.Registries == "" { // --cloud-config alone
		names = []string{"openstack"}
	}
	return chosen(names, identity, s.CloudConfig)
}

// chosen makes a configuration of flags alone.
func chosen(registries []string, identity credentialprovider.Identity, cloudConfig string) (*Config, error) {
	c := &Config{APIVersion: version, Kind: kind}
	for _, name := range registries {
		i := slices.IndexFunc(sections(), func(s section) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--registries: %q is not known; known are %s", name, strings.Join(Registries(), ", "))
		}
		s := sections()[i]
		if s.identity(c) != nil {
			return nil, fmt.Errorf("--registries: %s is there twice", name)
		}
		s.enable(c)
		*s.identity(c) = identity
	}
	if cloudConfig != "" {
		i := slices.IndexFunc(sections(), func(s section) bool { return s.login != nil && s.identity(c) != nil })
		if i < 0 {
			return nil, errors.New("--cloud-config is for openstack, which --registries does not list")
		}
		sections()[i].login(c, cloudConfig)
	}
	return c, nil
}
