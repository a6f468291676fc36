package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v2"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

const (
	configVersion = credentialprovider.AnnotationPrefix + "v1"
	configKind    = "CredentialProviderOptions"
)

// config is the file of --config. A kind of registry is served if its section is there, even
// an empty one ({}). A cloud that the build leaves out has no sections, so that its keys are unknown.
type config struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// AnonymousRegistries get no credentials: their images are pulled without.
	AnonymousRegistries []string `yaml:"anonymousRegistries"`

	awsSections       `yaml:",inline"`
	azureSections     `yaml:",inline"`
	gcpSections       `yaml:",inline"`
	openstackSections `yaml:",inline"`
}

// section is one kind of registry: its name in --registries and in the file, and what to do with it.
type section struct {
	name string
	// enable makes the section if there is none yet.
	enable func(*config)
	// identity returns where the section has its identity, nil if there is no section.
	identity func(*config) *credentialprovider.Identity
	// audience returns for whom the tokens of service accounts have to be, "" where the cloud's
	// administrator chose that.
	audience func(*config) string
	// annotations are the keys that are read of service accounts.
	annotations []string
	// open makes the provider, with warnings for the user.
	open func(*config, credentialprovider.Options) (credentialprovider.Provider, []string, error)
	// files are those that are read only when there is an image to pull; nil if there are none.
	files func(*config) []namedFile
	// inPartitions returns those of the patterns of images that are of these partitions of the cloud;
	// nil if it has none.
	inPartitions func(images, partitions []string) ([]string, error)
	// login sets the file of --cloud-config; nil if that is not for this kind.
	login func(*config, string)
}

// sections are all kinds, in the order in which they are asked. Those that know their
// registries by the host's name come first: their names do not overlap, and they cost
// nothing. A registry that cloud.conf names comes last, because that file has to be read.
func sections() []section {
	return slices.Concat(ecrSections(), acrSections(), artifactRegistrySections(), openstackRegistrySections())
}

func orNew[S any](s *S) *S {
	if s == nil {
		s = new(S)
	}
	return s
}

func fieldOf[S, F any](s *S, field func(*S) *F) *F {
	if s == nil {
		return nil
	}
	return field(s)
}

// opened keeps a nil pointer from becoming a Provider that is not nil.
func opened[P credentialprovider.Provider](p P, warnings []string, err error) (credentialprovider.Provider, []string, error) {
	if err != nil {
		return nil, warnings, err
	}
	return p, warnings, nil
}

// registryNames are the names of all kinds.
func registryNames() []string {
	var names []string
	for _, s := range sections() {
		names = append(names, s.name)
	}
	return names
}

// set makes of the configuration what answers requests. warn is called with warnings.
func (c *config) set(o credentialprovider.Options, warn func(string)) credentialprovider.Set {
	set := credentialprovider.Set{Anonymous: c.AnonymousRegistries}
	for _, s := range sections() {
		identity := s.identity(c)
		if identity == nil {
			continue
		}
		set.Kinds = append(set.Kinds, credentialprovider.Kind{
			Name:     s.name,
			Identity: *identity,
			Open: func() (credentialprovider.Provider, error) {
				provider, warnings, err := s.open(c, o)
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
func (c *config) check() error {
	var errs []error
	if c.APIVersion != configVersion {
		errs = append(errs, fmt.Errorf("apiVersion: it is %q and has to be %s", cloudauth.Excerpt(c.APIVersion, 80), configVersion))
	}
	if c.Kind != configKind {
		errs = append(errs, fmt.Errorf("kind: it is %q and has to be %s", cloudauth.Excerpt(c.Kind, 80), configKind))
	}
	for _, r := range c.AnonymousRegistries {
		if _, err := credentialprovider.NormalRegistry(r); err != nil {
			errs = append(errs, fmt.Errorf("anonymousRegistries: %w", err))
		}
	}
	found := false
	for _, s := range sections() {
		identity := s.identity(c)
		if identity == nil {
			continue
		}
		found = true
		if _, err := credentialprovider.ParseIdentity(string(*identity)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	if !found {
		errs = append(errs, fmt.Errorf("no kind of registry is configured; add a section, for example %s: {} (known are %s)", registryNames()[0], strings.Join(registryNames(), ", ")))
	}
	return errors.Join(errs...)
}

// readConfig reads the file of --config.
func readConfig(file string) (*config, error) {
	data, err := cloudauth.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--config cannot be read: %w", err)
	}
	c, err := decodeConfig(data)
	if err != nil {
		return nil, prefixed(file, err)
	}
	return c, nil
}

// decodeConfig decodes strictly: every key has to be known and there once, and there is one
// document.
func decodeConfig(data []byte) (*config, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.SetStrict(true)
	var c config
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
func (c *config) enableBare(data []byte) {
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

// explainYAML words the library's errors for users, without values, which may be secret.
func explainYAML(err error) error {
	var mistakes *yaml.TypeError
	if !errors.As(err, &mistakes) {
		return fmt.Errorf("it is no valid YAML: %s", withoutValues(strings.TrimPrefix(err.Error(), "yaml: ")))
	}
	// How the library words an unknown key. It is compiled only here: the program starts for every pull.
	unknownKey := regexp.MustCompile(`^line (\d+): field (.*) not found in type (?:.*)$`)
	var errs []error
	for _, m := range mistakes.Errors {
		if parts := unknownKey.FindStringSubmatch(m); parts != nil {
			hint := ""
			if meant := nearest.Of(parts[2], configKeys()); meant != "" {
				hint = "; did you mean " + meant + "?"
			}
			errs = append(errs, fmt.Errorf("line %s: the key %q is not known here%s", parts[1], cloudauth.Excerpt(parts[2], 60), hint))
			continue
		}
		m, _, _ = strings.Cut(m, " in type ")
		errs = append(errs, errors.New(withoutValues(m)))
	}
	return errors.Join(errs...)
}

// withoutValues removes what the YAML library quotes of the file.
func withoutValues(message string) string {
	parts := strings.Split(message, "`")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "…"
	}
	return cloudauth.Excerpt(strings.Join(parts, "`"), 300)
}

// configKeys are all keys of the file.
func configKeys() []string {
	var keys []string
	var collect func(reflect.Type)
	collect = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return
		}
		for f := range t.Fields() {
			key, inline, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if key == "-" || key == "" && inline == "" {
				continue
			}
			if key != "" {
				keys = append(keys, key)
			}
			collect(f.Type)
		}
	}
	collect(reflect.TypeFor[config]())
	return keys
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

// chosen makes a configuration of flags alone.
func chosen(registries []string, identity credentialprovider.Identity, cloudConfig string) (*config, error) {
	c := &config{APIVersion: configVersion, Kind: configKind}
	for _, name := range registries {
		i := slices.IndexFunc(sections(), func(s section) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--registries: %q is not known; known are %s", name, strings.Join(registryNames(), ", "))
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
