package credentialprovider

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the kubelet is told to match are the names that it has for registries, whatever they are called
// in the configuration: it would never ask for index.docker.io.
func TestMatchedNames(t *testing.T) {
	got := MatchedNames("index.docker.io", "Mirror.Example:5000", "reg.example:443", "docker.io")
	if diff := cmp.Diff([]string{"docker.io", "mirror.example:5000", "reg.example:443"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Every mistake is told once.
func TestCheckMirrors(t *testing.T) {
	is := func(name string) func(string) bool { return func(r string) bool { return r == name } }
	rules := MirrorRules{Section: "x", Kind: "an X registry", Target: "X registry", Serves: is("x.example"), Leads: is("x.example")}
	got, err := CheckMirrors([]Mirror{{"Docker.io", "X.example"}, {"mirror:5000", "x.example"}}, rules)
	if diff := cmp.Diff(map[string]string{"docker.io": "x.example", "mirror:5000": "x.example"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	_, err = CheckMirrors([]Mirror{{"a/b", "x.example"}, {"", "x.example"}, {"x.example", "y.example"}, {"c", "x.example"}, {"C", "a b"}}, rules)
	want := []string{
		`x: mirrors: upstream: registry "a/b" is no valid host or host:port`, `x: mirrors: upstream: registry "" is no valid host or host:port`,
		"x: mirrors: upstream x.example is an X registry itself; remove it", "x: mirrors: registry y.example is no X registry",
		`x: mirrors: registry: registry "a b" is no valid host or host:port`, "x: mirrors: upstream c is there twice; remove one",
	}
	if err == nil {
		t.Fatal("no mistake is found")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
