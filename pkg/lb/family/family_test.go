package family

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func node(name string, addresses ...string) cloud.LoadBalancerMember {
	m := cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: name}}
	for _, s := range addresses {
		m.Addresses = append(m.Addresses, netip.MustParseAddr(s))
	}
	return m
}

func TestRangesRestrictUnlessTheyHoldAllOfBothFamilies(t *testing.T) {
	for _, tt := range []struct {
		ranges []netip.Prefix
		want   bool
	}{
		{nil, false},
		{prefixes("10.0.0.0/8"), true},
		{prefixes("0.0.0.0/0"), true}, // nobody of IPv6
		{prefixes("::/0", "0.0.0.0/0"), false},
		{prefixes("::/0", "0.0.0.0/0", "10.0.0.0/8"), false},
	} {
		if got := Restrict(tt.ranges); got != tt.want {
			t.Errorf("%v: %t", tt.ranges, got)
		}
	}
}

func TestRangesAreThoseOfTheFamily(t *testing.T) {
	all := prefixes("10.0.0.0/8", "2001:db8::/32", "192.0.2.1/32")
	for ipv6, want := range map[bool]string{false: "[10.0.0.0/8 192.0.2.1/32] 0.0.0.0/0 IPv4", true: "[2001:db8::/32] ::/0 IPv6"} {
		if got := fmt.Sprint(Ranges(all, ipv6), " ", Everyone(ipv6), " ", name(ipv6)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if len(all) != 3 || all[1].Addr().Is4() {
		t.Error("what was given is changed")
	}
}

func TestMembersHaveEachAddressOnce(t *testing.T) {
	all := []cloud.LoadBalancerMember{node("a", "10.0.0.1", "2001:db8::1"), node("b", "2001:db8::2", "10.0.0.2", "10.0.0.3"), node("c", "10.0.0.1"), node("d")}
	got, warnings := Members(all, false)
	if s := fmt.Sprint(got); s != "[{a 10.0.0.1} {b 10.0.0.2}]" {
		t.Error(s)
	}
	want := []string{"nodes a and c have the same address 10.0.0.1: only the first gets traffic", "1 nodes have no IPv4 address and get no traffic of it: d"}
	if fmt.Sprint(warnings) != fmt.Sprint(want) {
		t.Errorf("got %q", warnings)
	}
	if got, warnings = Members(all, true); fmt.Sprint(got) != "[{a 2001:db8::1} {b 2001:db8::2}]" || fmt.Sprint(warnings) != "[2 nodes have no IPv6 address and get no traffic of it: c, d]" {
		t.Errorf("got %v, %q", got, warnings)
	}
}

func TestWarningsNameOnlySomeNodes(t *testing.T) {
	var all []cloud.LoadBalancerMember
	for k := range 5000 {
		all = append(all, node(fmt.Sprint("node-", k)))
	}
	if _, warnings := Members(all, true); len(warnings) != 1 || len(warnings[0]) > 300 {
		t.Errorf("got %.400q", warnings)
	}
}

func TestRangesStandWhereTheyAreNamed(t *testing.T) {
	const key = "service.beta.kubernetes.io/load-balancer-source-ranges"
	for value, want := range map[string]string{"10.1.2.3/8, 192.0.2.0/24": "metadata.annotations[" + key + "]", "": "spec.loadBalancerSourceRanges", "192.0.2.0/24": "spec.loadBalancerSourceRanges"} {
		spec := &cloud.LoadBalancerSpec{LoadBalancerRef: cloud.LoadBalancerRef{Settings: cloud.Settings{key: value}}, SourceRanges: prefixes("10.0.0.0/8")}
		if got := RangesPath(spec).String(); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}
