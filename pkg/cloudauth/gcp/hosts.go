package gcp

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// isHostOf reports whether a host is that of a service in a universe: service.<universe>, and
// the regional, mTLS and private forms that Google documents. The universe's other hosts do not
// count: anyone can have a bucket on storage.googleapis.com that takes what is sent to it, and with
// it <bucket>.storage.googleapis.com.
func isHostOf(host, service, universe string) bool {
	name, ok := strings.CutSuffix(host, "."+universe)
	if !ok || !isDomain(host) {
		return false
	}
	if region, ok := strings.CutSuffix(name, "-"+service); ok && isRegion(region) { // us-east1-sts
		return true
	}
	labels := strings.Split(name, ".")
	first, last := labels[0], labels[len(labels)-1]
	switch len(labels) {
	case 1:
		return first == service
	case 2: // sts.mtls, sts.us-east1, us-east1.sts, and sts-name.p of Private Service Connect
		return first == service && (last == "mtls" || isRegion(last)) || last == service && isRegion(first) || last == "p" && strings.HasPrefix(first, service+"-")
	}
	return len(labels) == 3 && first == service && isRegion(labels[1]) && last == "rep" // sts.us-east1.rep
}

// isRegion reports whether a label is a region's name, such as us-east1.
func isRegion(label string) bool {
	area, place, ok := strings.Cut(label, "-")
	return ok && only(area, lowerCase) && only(strings.TrimRight(place, digits), lowerCase) && strings.TrimRight(place, digits) != place
}

// checkEndpoint says what is wrong with a URL that a credentials file has for a service, nil if
// nothing is.
func checkEndpoint(text, service, universe string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return fmt.Errorf("%q is no URL", cloudauth.Excerpt(text, 120))
	}
	if u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Port() != "" && u.Port() != "443" || !isHostOf(u.Hostname(), service, universe) {
		return fmt.Errorf("https://%s.%s is expected, and credentials are not sent to %s://%s", service, universe, cloudauth.Excerpt(u.Scheme, 20), cloudauth.Excerpt(u.Host, 120))
	}
	return nil
}

// oldTokenURLs are what keys of service accounts have for a token_uri beside oauth2.googleapis.com.
var oldTokenURLs = []string{
	"https://accounts.google.com/o/oauth2/token",
	"https://www.googleapis.com/oauth2/v3/token",
	"https://www.googleapis.com/oauth2/v4/token",
}

// metadataV6 is the network of the metadata server with IPv6.
const metadataV6 = "fd20:ce::/32"

// isLocal reports whether a host may be spoken to without TLS.
func isLocal(host string) bool {
	return strings.TrimSuffix(host, ".") == "metadata.google.internal" || wire.IsNear(host, netip.MustParsePrefix(metadataV6))
}
