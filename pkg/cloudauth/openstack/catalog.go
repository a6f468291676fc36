package openstack

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// service is how a service is found in the catalog and spoken to.
type service struct {
	types   []string // in the order of preference
	version string   // path element that the client's resources are below, "" for the endpoint itself
	major   string   // path element that the endpoint has to have, "" for any
}

// services are the services that a Session gives clients for.
var services = map[string]service{
	"compute":       {types: []string{"compute"}},
	"network":       {types: []string{"network", "networking"}, version: "v2.0"},
	"load-balancer": {types: []string{"load-balancer"}, version: "v2.0"},
	"block-storage": {types: []string{"block-storage", "volumev3", "block-store", "volume"}, major: "v3"},
	"key-manager":   {types: []string{"key-manager"}, version: "v1"},
}

// catalog is Keystone's list of the endpoints, as one region sees it.
type catalog struct {
	entries      []tokens.CatalogEntry
	region       string // "" for the first that is there
	availability gophercloud.Availability
}

// in returns the catalog as another region sees it.
func (c *catalog) in(region string) *catalog {
	return &catalog{entries: c.entries, region: region, availability: c.availability}
}

// regions lists the regions that have endpoints, sorted.
func (c *catalog) regions() []string {
	seen := map[string]bool{}
	for _, entry := range c.entries {
		for _, e := range entry.Endpoints {
			if r := cmp.Or(e.Region, e.RegionID); r != "" && e.Interface == string(c.availability) && entry.Type != "identity" {
				seen[r] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// client returns a client for the service, without asking the network. (gophercloud's own
// constructors ask the endpoint for its versions every time.)
func (c *catalog) client(name string, pc *gophercloud.ProviderClient) (*gophercloud.ServiceClient, error) {
	svc, ok := services[name]
	if !ok {
		return nil, &Error{Reason: Misconfigured, text: fmt.Sprintf("service %q is not known to cloudauth", name)}
	}
	endpoint, ok := c.find(svc.types, svc.major)
	if !ok {
		return nil, c.missing(name, svc)
	}
	sc := &gophercloud.ServiceClient{ProviderClient: pc, Endpoint: endpoint, Type: name}
	if svc.version != "" {
		sc.ResourceBase = strings.TrimSuffix(endpoint, svc.version+"/") + svc.version + "/"
	}
	if svc.major != "" && versionIn(endpoint) == "" {
		sc.ResourceBase = endpoint + svc.major + "/"
	}
	return sc, nil
}

// find returns the first endpoint of the first type that is there.
func (c *catalog) find(types []string, major string) (string, bool) {
	for _, t := range types {
		for _, entry := range c.entries {
			if entry.Type != t {
				continue
			}
			for _, e := range entry.Endpoints {
				if e.Interface != string(c.availability) || !c.inRegion(e) {
					continue
				}
				if v := versionIn(e.URL); major == "" || v == "" || v == major {
					return gophercloud.NormalizeURL(e.URL), true
				}
			}
		}
	}
	return "", false
}

func (c *catalog) inRegion(e tokens.Endpoint) bool {
	return c.region == "" || e.Region == c.region || e.RegionID == c.region
}

// missing explains why there is no endpoint, with what the catalog has instead.
func (c *catalog) missing(name string, svc service) error {
	want := fmt.Sprintf("no %s endpoint of service %q", c.availability, name)
	if c.region != "" {
		want += fmt.Sprintf(" in region %q", c.region)
	}
	var has []string
	for _, entry := range c.entries {
		for _, e := range entry.Endpoints {
			if v := versionIn(e.URL); !slices.Contains(svc.types, entry.Type) || svc.major != "" && v != "" && v != svc.major {
				continue
			}
			if at := e.Region + " (" + e.Interface + ")"; !slices.Contains(has, at) {
				has = append(has, at)
			}
		}
	}
	slices.Sort(has)
	var text string
	switch {
	case c.region != "" && !slices.Contains(c.regions(), c.region) && len(c.regions()) > 0:
		text = fmt.Sprintf("%s: the catalog has no such region, only %s; correct the region in cloud.conf", want, limited(c.regions()))
	case len(has) > 0:
		text = fmt.Sprintf("%s: the catalog has it in %s; set region or os-endpoint-type in [Global] of cloud.conf", want, limited(has))
	case len(c.entries) == 0:
		text = want + ": the token has no catalog because it is for no project; set tenant-id or tenant-name in [Global] of cloud.conf"
	default:
		var types []string
		for _, entry := range c.entries {
			types = append(types, entry.Type)
		}
		slices.Sort(types)
		text = fmt.Sprintf("%s: the cloud does not offer it to this project; the catalog has %s in %s", want, limited(slices.Compact(types)), limited(c.regions()))
	}
	return &Error{Reason: NoEndpoint, text: text}
}

func limited(names []string) string {
	const most = 12
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// versionIn returns the URL's version as its major number ("v3" of /volume/v3.1/project),
// "" when there is none.
func versionIn(raw string) string {
	_, version := splitVersion(raw)
	major, _, _ := strings.Cut(version, ".")
	return major
}

// splitVersion splits a URL before its path element that is a version such as v3 or v2.1.
func splitVersion(raw string) (base, version string) {
	u, err := url.Parse(raw)
	if err != nil {
		return raw, ""
	}
	elements := strings.Split(u.Path, "/")
	for i, e := range elements {
		if len(e) > 1 && e[0] == 'v' && strings.Trim(e[1:], "0123456789.") == "" {
			u.Path, u.RawPath = strings.Join(elements[:i], "/")+"/", ""
			return u.String(), e
		}
	}
	return gophercloud.NormalizeURL(raw), ""
}

// prefixes maps the beginnings of URLs to the names of the services behind them, in every region.
func (c *catalog) prefixes(identityURL string) map[string]string {
	base, _ := splitVersion(identityURL)
	m := map[string]string{base: "identity"}
	for _, region := range append(c.regions(), c.region) {
		for name, svc := range services {
			if endpoint, ok := c.in(region).find(svc.types, svc.major); ok {
				base, _ := splitVersion(endpoint)
				m[base] = name
			}
		}
	}
	return m
}
