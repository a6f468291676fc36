package config

import (
	"github.com/isthmus-cloud/isthmus/credentialprovider"
)

// section is one kind of registry: its name in --registries and in the file, and what to do with it.
type section struct {
	name string
	// enable makes the section if there is none yet.
	enable func(*Config)
	// identity returns where the section has its identity, nil if there is no section.
	identity func(*Config) *credentialprovider.Identity
	// audience returns for whom the tokens of service accounts have to be, "" where the cloud's
	// administrator chose that.
	audience func(*Config) string
	// annotations are the keys that are read of service accounts.
	annotations []string
	// open makes the provider, with warnings for the user.
	open func(*Config, credentialprovider.Options) (credentialprovider.Provider, []string, error)
	// files are those that are read only when there is an image to pull; nil if there are none.
	files func(*Config) []File
	// inPartitions returns those of the patterns of images that are of these partitions of the cloud;
	// nil if it has none.
	inPartitions func(images, partitions []string) ([]string, error)
	// login sets the file of --cloud-config; nil if that is not for this kind.
	login func(*Config, string)
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

// Registries are the names of all kinds, as --registries has them.
func Registries() []string {
	var names []string
	for _, s := range sections() {
		names = append(names, s.name)
	}
	return names
}
