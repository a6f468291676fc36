package acr

import (
	"strings"

	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/azure"
)

// registry is a login server.
type registry struct {
	// host is its name, with the port if that is not 443.
	host string
	// login is the registry's own name where host is that of one of its replicas, else host.
	login string
	// cloud is where it is; the zero Cloud if its name does not tell.
	cloud auth.Cloud
}

// suffixes are the domains of the clouds' registries.
var suffixes = []struct {
	domain string
	cloud  auth.Cloud
}{
	{"azurecr.io", auth.Public},
	{"azurecr.cn", auth.China},
	{"azurecr.us", auth.USGovernment},
}

// regional is what stands between the region and the domain of a geo-replicated registry's regional
// endpoint: <name>.<region>.geo.azurecr.io. Data endpoints (….data.azurecr.io) are no login servers:
// no image is named by them.
const regional = "geo"

// parseHost tells of a registry in its normal form which one it is; false if it is none of ACR's.
func parseHost(host string) (registry, bool) {
	host = withoutPort443(host)
	for _, s := range suffixes {
		rest, ok := strings.CutSuffix(host, "."+s.domain)
		if !ok {
			continue
		}
		labels := strings.Split(rest, ".")
		for _, l := range labels {
			if !isLabel(l) {
				return registry{}, false
			}
		}
		switch {
		case len(labels) == 1:
			return registry{host: host, login: host, cloud: s.cloud}, true
		case len(labels) == 3 && labels[2] == regional:
			return registry{host: host, login: labels[0] + "." + s.domain, cloud: s.cloud}, true
		}
	}
	return registry{}, false
}

// withoutPort443 makes names of one server the same.
func withoutPort443(host string) string { return strings.TrimSuffix(host, ":443") }

// isLabel reports whether a text is the name of a registry (which has a hyphen and a hash behind it
// where its owner chose a domain name label scope) or of a region.
func isLabel(text string) bool {
	return text != "" && len(text) <= 63 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && strings.Trim(text, "-") == text
}

// patterns are what the kubelet's matchImages takes for all of these hosts.
func patterns() []string {
	var all []string
	for _, s := range suffixes {
		all = append(all, "*."+s.domain)
	}
	for _, s := range suffixes {
		all = append(all, "*.*."+regional+"."+s.domain)
	}
	return all
}
