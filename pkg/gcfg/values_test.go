package gcfg_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/gcfg"
)

func TestValuesAreTheFilesWithoutSecrets(t *testing.T) {
	const file = "[Global]\nauth-url=https://me:hunter2@keystone/v3\npassword=hunter2\n[LoadBalancer]\nenabled\ndelay=1m\nnetwork=a\nnetwork=b\nlimit=3\n[Registry \"r.example\"]\ntype=barbican\n"
	var conf testConf
	if _, err := gcfg.Decode("cloud.conf", []byte(file), &conf); err != nil {
		t.Fatal(err)
	}
	got := gcfg.Values(&conf)
	for key, value := range got["Global"] { // those that the file does not name
		if value == "false" || value == "0s" {
			delete(got["Global"], key)
		}
	}
	want := map[string]map[string]string{
		"Global":                 {"auth-url": "https://me:xxxxx@keystone/v3", "password": cloudauth.Redacted},
		"LoadBalancer":           {"enabled": "true", "monitor-max-retries": "0", "delay": "1m0s", "network": "a,b", "limit": "3"},
		`[Registry "r.example"]`: {"type": "barbican"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestValuesOfYAMLHaveItsNames(t *testing.T) {
	var conf struct {
		Server struct {
			Endpoint string            `yaml:"endpointAddress"`
			Password cloudauth.Secret  `yaml:"password"`
			Tags     gcfg.Pairs        `yaml:"tags"`
			None     gcfg.Pairs        `yaml:"none"`
			List     gcfg.List         `yaml:"list"`
			More     *cloudauth.Secret `yaml:"more"`
		} `yaml:"server"`
	}
	if _, err := gcfg.DecodeYAML("cloud.conf", []byte("server: {endpointAddress: a, password: hunter2, tags: {a: b}, list: [x, y]}\n"), &conf); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{"server": {"endpointAddress": "a", "password": cloudauth.Redacted, "tags": "map[a:b]", "list": "x,y"}}
	if d := cmp.Diff(want, gcfg.Values(&conf)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestWithoutPassword(t *testing.T) {
	for value, want := range map[string]string{
		"https://me:secret@a/b": "https://me:xxxxx@a/b", "https://token@a/b": "https://xxxxx@a/b", "https://a/b?c=d": "https://a/b?c=d",
		"a:b@c": "a:b@c", "": "", "%zz": "%zz",
	} {
		if got := gcfg.WithoutPassword(value); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}
