package marks

import (
	"encoding/base64"
	"net/netip"
	"net/url"
	"testing"
)

func TestRouteIsReadBack(t *testing.T) {
	const cluster, other = "0d6a2a5e-9c1a-4b7e-8b1d-1f2e3d4c5b6a", "x"
	for _, r := range [][2]string{
		{"10.244.1.0/24", "10.0.0.5"}, {"10.244.1.0/24", "10.0.0.6"}, {"0.0.0.0/0", "255.255.255.255"}, {"10.244.1.1/32", "10.0.0.5"},
		{"fd00:10:244:1::/64", "fd00::f816:3eff:fe95:555a"},
		{"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	} {
		destination, hop := netip.MustParsePrefix(r[0]), netip.MustParseAddr(r[1])
		for _, suffix := range []string{"", Beside} {
			tag := Route(cluster, destination, hop) + suffix
			if len(tag) > 60 || url.PathEscape(tag) != tag {
				t.Errorf("%s: %d characters, at most 60, or unfit for a path", tag, len(tag))
			}
			gotDestination, gotHop, beside, ok := ParseRoute(cluster, tag)
			if !ok || gotDestination != destination || gotHop != hop || beside != (suffix != "") {
				t.Errorf("%s: read back as %v, %v, %v, %v", tag, gotDestination, gotHop, beside, ok)
			}
			if _, _, _, ok := ParseRoute(other, tag); ok {
				t.Errorf("%s is taken for another cluster's", tag)
			}
		}
	}
}

// A tag that is not written exactly as a record is none.
func TestParseRouteIsExact(t *testing.T) {
	for _, raw := range [][]byte{
		{10, 244, 1, 5, 24, 10, 0, 0, 5}, {10, 244, 1, 0, 33, 10, 0, 0, 5}, {10, 244, 1, 0, 24, 10, 0, 0}, {10, 244, 1, 0, 24, 10, 0, 0, 5, 0}, {},
	} {
		tag := clusterRecordPrefix("x") + base64.RawURLEncoding.EncodeToString(raw)
		if destination, hop, _, ok := ParseRoute("x", tag); ok {
			t.Errorf("%v is read as %v via %v", raw, destination, hop)
		}
	}
}

func FuzzParseRoute(f *testing.F) {
	f.Add("")
	f.Add(Route("x", netip.MustParsePrefix("10.244.1.0/24"), netip.MustParseAddr("10.0.0.5")))
	f.Fuzz(func(t *testing.T, tag string) {
		for _, tag := range []string{tag, clusterRecordPrefix("x") + tag} {
			destination, hop, beside, ok := ParseRoute("x", tag)
			if !ok {
				continue
			}
			again := Route("x", destination, hop)
			if beside {
				again += Beside
			}
			if again != tag {
				t.Errorf("%q is read as %v via %v, which is written %q", tag, destination, hop, again)
			}
		}
	})
}
