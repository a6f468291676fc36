package acr

import (
	"strings"
	"testing"

	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/azure"
)

func TestHosts(t *testing.T) {
	for host, want := range map[string]registry{
		"contoso.azurecr.io":                       {"contoso.azurecr.io", "contoso.azurecr.io", auth.Public},
		"contoso.azurecr.io:443":                   {"contoso.azurecr.io", "contoso.azurecr.io", auth.Public},
		"contoso.azurecr.cn":                       {"contoso.azurecr.cn", "contoso.azurecr.cn", auth.China},
		"contoso.azurecr.us":                       {"contoso.azurecr.us", "contoso.azurecr.us", auth.USGovernment},
		"contoso.westeurope.geo.azurecr.io":        {"contoso.westeurope.geo.azurecr.io", "contoso.azurecr.io", auth.Public},
		"contoso.chinaeast2.geo.azurecr.cn":        {"contoso.chinaeast2.geo.azurecr.cn", "contoso.azurecr.cn", auth.China},
		"contoso-abc123.usgovtexas.geo.azurecr.us": {"contoso-abc123.usgovtexas.geo.azurecr.us", "contoso-abc123.azurecr.us", auth.USGovernment},
	} {
		if got, ok := parseHost(host); !ok || got != want {
			t.Errorf("%s: %+v, %t, want %+v", host, got, ok, want)
		}
		if !matched(host) {
			t.Errorf("%s: none of the patterns for the kubelet matches", host)
		}
	}
}

// The peer does not know registries with a hyphen and a hash in their names (domain name label scopes), nor
// regional endpoints, and answers without credentials and without an error.
func TestDefectLabeledNames(t *testing.T) {
	for _, host := range []string{"contoso-a1b2c3d4e5f6g7h8.azurecr.io", "contoso-a1b2c3d4e5f6g7h8.eastus.geo.azurecr.io"} {
		if _, ok := parseHost(host); !ok || !matched(host) {
			t.Errorf("%s is not known", host)
		}
	}
}

// The credentials go to no host that only looks like one of ACR's.
func TestDefectLookalikeHosts(t *testing.T) {
	for _, host := range []string{
		"", "azurecr.io", ".azurecr.io", "-.azurecr.io", "-contoso.azurecr.io", "contoso-.azurecr.io", "con_toso.azurecr.io", "contosoazurecr.io",
		"contoso.azurecr.io.evil.example", "evil.example", "contoso.azurecr.io.", "contoso.azurecr.io:5000", "contoso.azurecr.de", "contoso.azurecr.com", "contoso.azurecr.i",
		"contoso.eastus.data.azurecr.io", "contoso.privatelink.azurecr.io", "a.b.c.geo.azurecr.io", "contoso.geo.azurecr.io", "eastus.azurecr.io.geo", "contoso..geo.azurecr.io",
		"evil.example/azurecr.io", "contoso@azurecr.io", strings.Repeat("a", 64) + ".azurecr.io",
	} {
		if r, ok := parseHost(host); ok {
			t.Errorf("%q is taken for %+v", host, r)
		}
	}
}

// matched reports whether one of the patterns matches as the kubelet does, label by label.
func matched(host string) bool {
	host, _, _ = strings.Cut(host, ":")
	labels := strings.Split(host, ".")
	for _, p := range patterns() {
		parts := strings.Split(p, ".")
		ok := len(parts) == len(labels)
		for i := range parts {
			ok = ok && (parts[i] == "*" || parts[i] == labels[i])
		}
		if ok {
			return true
		}
	}
	return false
}
