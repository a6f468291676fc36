package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
)

const configHead = "apiVersion: isthmus-cloud.github.io/v1\nkind: CredentialProviderOptions\n"

func TestConfigMistakes(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		want []string
	}{
		"empty":             {"", []string{`apiVersion: it is "" and has to be isthmus-cloud.github.io/v1`, "kind: it is", "no kind of registry is configured; add a section"}},
		"no section":        {configHead, []string{"no kind of registry is configured"}},
		"unknown section":   {configHead + "openstak: {}\n", []string{`line 3: the key "openstak" is not known here; did you mean openstack?`}},
		"unknown key":       {configHead + "openstack:\n  cloudconfig: s3cret\n  nothing: s3cret\n", []string{`line 4: the key "cloudconfig" is not known here; did you mean cloudConfig?`, `line 5: the key "nothing" is not known here`}},
		"key twice":         {configHead + "openstack: {}\nopenstack: {}\n", []string{"openstack already set"}},
		"wrong type":        {configHead + "openstack: {cloudConfig: [s3cret]}\n", []string{"cannot unmarshal"}},
		"no YAML":           {configHead + "openstack: {\n", []string{"it is no valid YAML: line"}},
		"two documents":     {configHead + "openstack: {}\n---\nx: y\n", []string{"more than one YAML document"}},
		"unknown identity":  {configHead + "openstack: {identity: pod}\n", []string{`openstack: identity "pod" is not known; it has to be node or serviceAccount`}},
		"anonymous pattern": {configHead + "openstack:\nanonymousRegistries: ['*.example.com']\n", []string{`anonymousRegistries: registry "*.example.com" is no valid host`}},
		"other version":     {strings.Replace(configHead, "/v1", "/v2", 1) + "openstack:\n", []string{`it is "isthmus-cloud.github.io/v2" and has to be`}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "options.yaml")
			if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := read(file)
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file+": ") {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "config.Config") {
				t.Errorf("the error shows a value or Go: %v", err)
			}
		})
	}
	if _, err := read("/nowhere/x"); err == nil || !strings.Contains(err.Error(), "--config cannot be read: open /nowhere/x") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestConfig(t *testing.T) {
	c, err := decode([]byte(configHead + "anonymousRegistries: [a.example]\nopenstack: {identity: serviceAccount, cloudConfig: x}\n"))
	if err != nil {
		t.Fatal(err)
	}
	set := c.Set(credentialprovider.Options{}, func(string) {})
	if len(set.Kinds) != 1 || set.Kinds[0].Name != "openstack" || set.Kinds[0].Identity != credentialprovider.ServiceAccountIdentity || len(set.Anonymous) != 1 {
		t.Errorf("%+v", set)
	}
	if c, err := decode([]byte(configHead + "openstack:\n")); err != nil || c.OpenStack == nil {
		t.Errorf("a section with nothing in it: %+v, %v", c, err)
	}
}

// FuzzConfig checks that nothing panics and that errors are of bounded length.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(configHead + "openstack: {cloudConfig: x}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("openstack: !!binary x\n? [a]\n: b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decode(data)
		if err == nil && len(c.Set(credentialprovider.Options{}, func(string) {}).Kinds) == 0 {
			t.Errorf("%q: accepted without any kind of registry", data)
		}
	})
}
