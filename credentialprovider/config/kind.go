package config

import (
	"github.com/isthmus-cloud/isthmus/credentialprovider"
)

// Kind is a kind of registries that is configured.
type Kind struct {
	// Name is that of its section, and of --registries.
	Name    string
	section section
	config  *Config
}

// File is one that a kind reads only when there is an image to pull: the key that names it, and where it is.
type File struct{ Key, Path string }

// Kinds are those that are configured, in the order in which they are asked.
func (c *Config) Kinds() []Kind {
	var all []Kind
	for _, s := range sections() {
		if s.identity(c) != nil {
			all = append(all, Kind{Name: s.name, section: s, config: c})
		}
	}
	return all
}

// Identity is as whom credentials are got, as it is written.
func (k Kind) Identity() credentialprovider.Identity { return *k.section.identity(k.config) }

// Audience is for whom the tokens of service accounts have to be, "" where the cloud's administrator chose that.
func (k Kind) Audience() string { return k.section.audience(k.config) }

// Annotations are the keys that are read of service accounts.
func (k Kind) Annotations() []string { return k.section.annotations }

// Open makes the provider, with warnings for the user.
func (k Kind) Open(o credentialprovider.Options) (credentialprovider.Provider, []string, error) {
	return k.section.open(k.config, o)
}

// Bare is the same kind with nothing configured.
func (k Kind) Bare() Kind {
	k.config = new(Config)
	k.section.enable(k.config)
	return k
}

// Files are those that it reads only when there is an image to pull.
func (k Kind) Files() []File {
	if k.section.files == nil {
		return nil
	}
	var all []File
	for _, f := range k.section.files(k.config) {
		if f.Path != "" {
			all = append(all, f)
		}
	}
	return all
}

// InPartitions returns those of the patterns of images that are of these partitions of the cloud; all where it
// has none.
func (k Kind) InPartitions(images, partitions []string) ([]string, error) {
	if k.section.inPartitions == nil {
		return images, nil
	}
	return k.section.inPartitions(images, partitions)
}
