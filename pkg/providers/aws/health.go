package aws

import (
	"reflect"

	"github.com/isthmus-cloud/isthmus/pkg/cloudconf"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
)

// conf is cloud.conf, of which all needs a restart. Credentials are not in it: the session takes over files of AWS' that
// change by itself.
func conf(file string, cfg *config.Config) cloudconf.File[config.Config] {
	return cloudconf.File[config.Config]{Path: file, InUse: cfg,
		Parse: func(data []byte) (*config.Config, error) {
			cfg, _, err := config.Parse(file, data)
			return cfg, err
		},
		Section: func(f reflect.StructField) string { return "[" + f.Tag.Get("gcfg") + "]" }}
}
