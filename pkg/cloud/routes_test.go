package cloud

import (
	"net/netip"
	"testing"
)

func TestHasPods(t *testing.T) {
	c := Cluster{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("::/0")}}
	for prefix, want := range map[string]bool{
		"10.244.0.0/16": true, "10.244.255.0/24": true, "10.244.1.1/32": true, "fd00::/64": true,
		"10.244.0.0/15": false, "10.0.0.0/8": false, "10.245.0.0/24": false, "0.0.0.0/0": false,
	} {
		if got := c.HasPods(netip.MustParsePrefix(prefix)); got != want {
			t.Errorf("%s: %t", prefix, got)
		}
	}
}

func TestCheckHop(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00::/64")
	hop := netip.MustParseAddr("10.0.0.5")
	for _, tt := range []struct {
		route Route
		want  string
	}{
		{Route{Destination: v4, NextHop: hop}, ""},
		{Route{Destination: v6, NextHop: hop}, "route to fd00::/64 via 10.0.0.5: the address families differ"},
		{Route{Destination: v4}, "route to 10.244.1.0/24 via invalid IP: destination and next hop are both needed"},
		{Route{NextHop: hop}, "route to invalid Prefix via 10.0.0.5: destination and next hop are both needed"},
	} {
		if err := tt.route.CheckHop(); (err == nil) != (tt.want == "") || err != nil && (err.Error() != tt.want || KindOf(err) != KindInvalid) {
			t.Errorf("%v of kind %v, want %q", err, KindOf(err), tt.want)
		}
	}
}
