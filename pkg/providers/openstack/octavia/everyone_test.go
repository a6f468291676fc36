package octavia

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// wantRanges asserts what Octavia shows as each listener's clients.
func (x *lbTest) wantRanges(when string, want ...string) {
	x.t.Helper()
	all, err := x.op().reconciliation.octavia.Listeners(testContext(x.t), x.spec.Settings[plan.AnnLoadBalancerID])
	if err != nil {
		x.t.Fatal(err)
	}
	for _, l := range all {
		if !slices.Equal(l.AllowedCIDRs, want) {
			x.t.Errorf("%s: listener %s lets in %q, want %q", when, l.Name, l.AllowedCIDRs, want)
		}
	}
}

// A listener that lets everyone in says so with a range, as openstack-cloud-controller-manager
// writes it: that would change each listener without one when it takes over.
func TestEveryoneIsARangeWhenAListenerIsMadeOrChanged(t *testing.T) {
	x := newLBTest(t, 2, managed)
	x.ensure(x.spec)
	x.wantRanges("made", "0.0.0.0/0")
	x.spec.Settings[plan.AnnConnectionLimit] = "7"
	x.ensure(x.spec)
	x.wantRanges("changed", "0.0.0.0/0")
	x.spec.SourceRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	x.ensure(x.spec)
	x.wantRanges("restricted", "10.0.0.0/8")
	x.spec.SourceRanges = nil
	x.ensure(x.spec)
	x.wantRanges("opened again", "0.0.0.0/0")
	x.spec.SourceRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("0.0.0.0/0")}
	x.spec.Settings[plan.AnnConnectionLimit] = "8"
	x.ensure(x.spec)
	x.wantRanges("opened by one of two ranges", "0.0.0.0/0", "10.0.0.0/8")
}

func TestEveryoneIsARangeOfIPv6WhenTheServiceIs(t *testing.T) {
	x := newDualStackTest(t, 2, managed)
	x.spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	x.ensure(x.spec)
	x.wantRanges("made", "::/0")
}

// Octavia (Zed) cannot open an amphora's VIP of two families to ranges of one.
func TestEveryoneIsNoRangeWhenTwoFamiliesAreServed(t *testing.T) {
	x := newDualStackTest(t, 2, managed)
	x.ensure(x.spec)
	x.wantRanges("made")
}

// A listener without a pool gets one; how it lets everyone in stays as it is.
func TestEveryoneStaysAsWrittenWhenAListenerGetsAPool(t *testing.T) {
	x := newLBTest(t, 2, managed)
	x.ensure(x.spec)
	for _, l := range x.tree(x.spec).Listeners {
		if err := pools.Delete(testContext(t), x.op().octavia, l.Pool.ID).ExtractErr(); err != nil {
			t.Fatal(err)
		}
		if _, err := x.op().waitActive(testContext(t), x.spec.Settings[plan.AnnLoadBalancerID]); err != nil {
			t.Fatal(err)
		}
	}
	x.restart()
	x.ensure(x.spec)
	x.wantRanges("with new pools", "0.0.0.0/0")
	if n := len(x.tree(x.spec).Pools); n != 2 {
		t.Errorf("there are %d pools, want 2", n)
	}
}
