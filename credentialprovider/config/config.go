package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v2"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const (
	version = credentialprovider.AnnotationPrefix + "v1"
	kind    = "CredentialProviderOptions"
)

// Config is the file of --config. A kind of registry is served if its section is there, even
// an empty one ({}). A cloud that the build leaves out has no sections, so that its keys are unknown.
type Config struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// AnonymousRegistries get no credentials: their images are pulled without.
	AnonymousRegistries []string `yaml:"anonymousRegistries"`

	awsSections       `yaml:",inline"`
	azureSections     `yaml:",inline"`
	gcpSections       `yaml:",inline"`
	openstackSections `yaml:",inline"`
}

// sections are all kinds, in the order in which they are asked. Those that know their
// registries by the host's name come first: their names do not overlap, and they cost
// nothing. A registry that cloud.conf names comes last, because that file has to be read.
func sections() []section {
	return slices.Concat(ecrSections(), acrSections(), artifactRegistrySections(), openstackRegistrySections())
}

// Set makes of the configuration what answers requests. warn is called with warnings.
func (c *Config) Set(o credentialprovider.Options, warn func(string)) credentialprovider.Set {
	set := credentialprovider.Set{Anonymous: c.AnonymousRegistries}
	for _, k := range c.Kinds() {
		set.Kinds = append(set.Kinds, credentialprovider.Kind{
			Name:     k.Name,
			Identity: k.Identity(),
			Open: func() (credentialprovider.Provider, error) {
				provider, warnings, err := k.Open(o)
				for _, w := range warnings {
					warn(w)
				}
				return provider, err
			},
		})
	}
	return set
}

// check returns all mistakes that are not those of one kind of registry.
func (c *Config) check() error {
	var errs []error
	if c.APIVersion != version {
		errs = append(errs, fmt.Errorf("apiVersion: it is %q and has to be %s", cloudauth.Excerpt(c.APIVersion, 80), version))
	}
	if c.Kind != kind {
		errs = append(errs, fmt.Errorf("kind: it is %q and has to be %s", cloudauth.Excerpt(c.Kind, 80), kind))
	}
	for _, r := range c.AnonymousRegistries {
		if _, err := credentialprovider.NormalRegistry(r); err != nil {
			errs = append(errs, fmt.Errorf("anonymousRegistries: %w", err))
		}
	}
	kinds := c.Kinds()
	for _, k := range kinds {
		if _, err := credentialprovider.ParseIdentity(string(k.Identity())); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", k.Name, err))
		}
	}
	if len(kinds) == 0 {
		errs = append(errs, fmt.Errorf("no kind of registry is configured; add a section, for example %s: {} (known are %s)", Registries()[0], strings.Join(Registries(), ", ")))
	}
	return errors.Join(errs...)
}

// read reads the file of --config.
func read(file string) (*Config, error) {
	data, err := cloudauth.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--config cannot be read: %w", err)
	}
	c, err := decode(data)
	if err != nil {
		return nil, prefixed(file, err)
	}
	return c, nil
}

// decode decodes strictly: every key has to be known and there once, and there is one
// document.
func decode(data []byte) (*Config, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.SetStrict(true)
	var c Config
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return nil, explainYAML(err)
	}
	var more any
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one YAML document in it; keep the first")
	}
	c.enableBare(data)
	return &c, c.check()
}

// enableBare makes the sections that are there without anything in them, which the decoder
// leaves out.
func (c *Config) enableBare(data []byte) {
	var bare map[string]any
	if yaml.Unmarshal(data, &bare) != nil {
		return
	}
	for _, s := range sections() {
		if value, there := bare[s.name]; there && value == nil {
			s.enable(c)
		}
	}
}

func prefixed(file string, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s: %w", file, err)
	}
	var errs []error
	for _, e := range joined.Unwrap() {
		errs = append(errs, fmt.Errorf("%s: %w", file, e))
	}
	return errors.Join(errs...)
}
