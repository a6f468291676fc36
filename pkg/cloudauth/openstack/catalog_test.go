package openstack

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// entryOf is a service of the catalog; each endpoint is "interface region URL".
func entryOf(typ string, endpoints ...string) tokens.CatalogEntry {
	e := tokens.CatalogEntry{Type: typ}
	for _, s := range endpoints {
		f := strings.Fields(s)
		e.Endpoints = append(e.Endpoints, tokens.Endpoint{Interface: f[0], Region: f[1], RegionID: f[1], URL: f[2]})
	}
	return e
}

func TestCatalog(t *testing.T) {
	for name, tt := range map[string]struct {
		entries         []tokens.CatalogEntry
		service, region string
		availability    gophercloud.Availability
		want, wantErr   string
	}{
		"region": {
			entries: []tokens.CatalogEntry{entryOf("compute", "public one http://a/v2.1", "public two http://b/v2.1")},
			service: "compute", region: "two", want: "http://b/v2.1/x",
		},
		"no region takes the first, as the existing controller does": {
			entries: []tokens.CatalogEntry{entryOf("compute", "admin one http://c", "public one http://a/v2.1", "public two http://b/v2.1")},
			service: "compute", want: "http://a/v2.1/x",
		},
		"interface": {
			entries: []tokens.CatalogEntry{entryOf("network", "public one http://a", "internal one http://b/")},
			service: "network", availability: gophercloud.AvailabilityInternal, want: "http://b/v2.0/x",
		},
		"version in the endpoint": {
			entries: []tokens.CatalogEntry{entryOf("load-balancer", "public one http://a/lb/v2.0")},
			service: "load-balancer", want: "http://a/lb/v2.0/x",
		},
		"keys": {entries: []tokens.CatalogEntry{entryOf("key-manager", "public one http://a:9311")}, service: "key-manager", want: "http://a:9311/v1/x"},
		"volumes: the third version": {
			entries: []tokens.CatalogEntry{entryOf("volume", "public one http://a/v1/p"), entryOf("volumev2", "public one http://a/v2/p"), entryOf("volumev3", "public one http://a/v3/p")},
			service: "block-storage", want: "http://a/v3/p/x",
		},
		"volumes: the new type's endpoint may be an old version": {
			entries: []tokens.CatalogEntry{entryOf("block-storage", "public one http://a/v2/p", "public one http://a/v3.1/p")},
			service: "block-storage", want: "http://a/v3.1/p/x",
		},
		"volumes: no version": {entries: []tokens.CatalogEntry{entryOf("block-storage", "public one http://a/volume")}, service: "block-storage", want: "http://a/volume/v3/x"},
		"volumes: only old ones": {
			entries: []tokens.CatalogEntry{entryOf("volume", "public one http://a/v2/p")},
			service: "block-storage", wantErr: `no public endpoint of service "block-storage": the cloud does not offer it to this project; the catalog has volume in one`,
		},
		"wrong region": {
			entries: []tokens.CatalogEntry{entryOf("compute", "public one http://a", "internal one http://b"), entryOf("image", "public two http://c")},
			service: "compute", region: "two", wantErr: `no public endpoint of service "compute" in region "two": the catalog has it in one (internal), one (public); set region or os-endpoint-type in [Global] of cloud.conf`,
		},
		"not offered": {
			entries: []tokens.CatalogEntry{entryOf("image", "public two http://c"), entryOf("compute", "public one http://a")},
			service: "load-balancer", wantErr: `no public endpoint of service "load-balancer": the cloud does not offer it to this project; the catalog has compute, image in one, two`,
		},
		"empty": {service: "compute", wantErr: `no public endpoint of service "compute": the token has no catalog because it is for no project; set tenant-id or tenant-name in [Global] of cloud.conf`},
	} {
		t.Run(name, func(t *testing.T) {
			c := catalog{entries: tt.entries, region: tt.region, availability: tt.availability}
			if c.availability == "" {
				c.availability = gophercloud.AvailabilityPublic
			}
			sc, err := c.client(tt.service, &gophercloud.ProviderClient{})
			if tt.wantErr != "" {
				if e := AsError(err); e == nil || e.Reason != NoEndpoint {
					t.Fatalf("got %v, want the reason NoEndpoint", err)
				}
				if diff := cmp.Diff(tt.wantErr, err.Error()); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := sc.ServiceURL("x"); got != tt.want {
				t.Errorf("URL %s, want %s", got, tt.want)
			}
		})
	}
}

func TestSplitVersion(t *testing.T) {
	for in, want := range map[string][2]string{
		"http://k:5000/v3/":              {"http://k:5000/", "v3"},
		"http://k/compute/v2.1/project":  {"http://k/compute/", "v2.1"},
		"http://k/identity":              {"http://k/identity/", ""},
		"http://v2.example/dev2/network": {"http://v2.example/dev2/network/", ""},
	} {
		if base, version := splitVersion(in); base != want[0] || version != want[1] {
			t.Errorf("splitVersion(%q) = %q, %q, want %q", in, base, version, want)
		}
	}
}
