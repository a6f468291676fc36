package providers

import (
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	awsconfig "github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	osconfig "github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	vsphereconfig "github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/config"
	paravirtualconfig "github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/config"
)

const hunter = "hunter2"

// fill puts hunter into each secret, and a harmless text into each other string.
func fill(v reflect.Value) (secrets int) {
	if v.Type() == reflect.TypeFor[cloudauth.Secret]() {
		v.Set(reflect.ValueOf(cloudauth.NewSecret(hunter)))
		return 1
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				secrets += fill(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString("text")
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.Pointer {
			one := reflect.New(v.Type().Elem().Elem())
			secrets = fill(one.Elem())
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("name").Convert(v.Type().Key()), one)
		}
	}
	return secrets
}

// What /configz shows of a cloud's file has no secret: each key whose name sounds like one is one by its type, or stands here.
func TestSettingsHaveNoSecrets(t *testing.T) {
	suspicious := regexp.MustCompile(`(?i)password|secret|token|key|credential`)
	harmless := []string{
		"secret", "secret-name", "secret-namespace", "secrets-directory", "credentialsDirectory", // where secrets are
		"key-file", "client-auth-key-file", "access-token-file", // files
		"application-credential-id", "application-credential-name",
	}
	for cloud, conf := range map[string]interface {
		Settings() map[string]map[string]string
	}{"aws": &awsconfig.Config{}, "openstack": &osconfig.Config{}, "vsphere": &vsphereconfig.Config{}, "vsphere-paravirtual": &paravirtualconfig.Config{}} {
		secrets, shown := fill(reflect.ValueOf(conf).Elem()), 0
		settings := conf.Settings()
		if len(settings) == 0 {
			t.Errorf("%s: there are no settings", cloud)
		}
		for section, values := range settings {
			for key, value := range values {
				switch {
				case value == cloudauth.Redacted:
					shown++
				case value == hunter:
					t.Errorf("%s: %s %s is shown", cloud, section, key)
				case suspicious.MatchString(key) && !slices.Contains(harmless, key):
					t.Errorf("%s: %s %s = %s may be a secret: give it the type cloudauth.Secret, or name it here", cloud, section, key, value)
				}
			}
		}
		if shown > secrets || cloud != "aws" && cloud != "vsphere-paravirtual" && shown < 2 {
			t.Errorf("%s: %d of %d secrets are named", cloud, shown, secrets)
		}
	}
}
