package octavia

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// newDualStackTest is a cloud whose private network has a subnet of each family, and so do
// the servers; more are further IPv6 subnets.
func newDualStackTest(t *testing.T, n int, conf string, more ...string) *lbTest {
	t.Helper()
	x := newLBTest(t, 0, conf)
	t.Cleanup(func() { logCalls(t, x.sim) })
	for _, cidr := range append([]string{"fd77::/64"}, more...) {
		x.neutron("POST", "subnets", map[string]any{"subnet": map[string]any{"network_id": x.sim.Defaults().NetworkID, "ip_version": 6, "cidr": cidr}})
	}
	for _, s := range x.sim.SeedServers(ossim.Seed{Count: n, NamePrefix: "dual-"}) {
		m := cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: s.Name, ProviderID: "openstack:///" + s.ID}}
		m.Addresses = append(m.Addresses, s.Addresses...)
		x.all = append(x.all, m)
	}
	x.spec.Members = x.all
	x.spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	return x
}

// memberFamilies counts the members of each pool by family, "<protocol> <IPv4>/<IPv6>".
func memberFamilies(tree *plan.Tree) (out []string) {
	for _, l := range tree.Listeners {
		count := map[bool]int{}
		for _, m := range l.Pool.Members {
			count[m.Endpoint().Addr().Is6()]++
		}
		out = append(out, fmt.Sprintf("%s %d/%d", l.Protocol, count[false], count[true]))
	}
	return out
}

// TestComplaint1937DualStack: both families of a Service are served.
func TestComplaint1937DualStack(t *testing.T) {
	for _, first := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		t.Run(string(first), func(t *testing.T) {
			x := newDualStackTest(t, 2, managed)
			tcp := "TCP 2/0"
			if first == corev1.IPv6Protocol {
				x.spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
				x.spec.Settings[plan.AnnNetworkID] = x.sim.Defaults().NetworkID // of which Octavia would take an IPv4 subnet
				tcp = "TCP 0/2"
			}
			status := x.ensure(x.spec)
			fip := x.sim.Snapshot().FloatingIPs
			if len(fip) != 1 || len(status.Ingress) != 2 || len(status.Warnings) > 0 {
				t.Fatalf("floating IPs %v, status %+v", fip, status)
			}
			v4, v6 := netip.MustParseAddr(status.Ingress[0].IP), netip.MustParseAddr(status.Ingress[1].IP)
			if first == corev1.IPv6Protocol {
				v4, v6 = v6, v4
			}
			if !v4.Is4() || !netip.MustParsePrefix("fd77::/64").Contains(v6) || status.Annotations[plan.AnnAddress] != v4.String() {
				t.Errorf("published %+v, annotated %s", status.Ingress, status.Annotations[plan.AnnAddress])
			}
			if diff := cmp.Diff([]string{tcp, "UDP 2/2"}, memberFamilies(x.tree(x.spec))); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
			rules := strings.Join(ruleTexts(x.group(x.spec)), "\n")
			for _, want := range []string{fmt.Sprintf("ingress IPv4 udp 30053 127.%d.0.0/18", x.sim.Net()), "ingress IPv6 udp 30053 fd77::/64"} {
				if !strings.Contains(rules, want) {
					t.Errorf("the security group lacks %q:\n%s", want, rules)
				}
			}
			x.budget("unchanged", 2, func() { x.ensure(x.spec) })
			x.spec.Members = x.all[:1]
			if err := x.lbs.UpdateMembers(testContext(t), x.spec); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{strings.ReplaceAll(tcp, "2", "1"), "UDP 1/1"}, memberFamilies(x.tree(x.spec))); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
			x.restart()
			x.sim.ResetRequests()
			x.ensure(x.spec)
			if n := x.sim.Mutations(); n > 0 {
				t.Errorf("an unchanged Service after a restart makes %d changes", n)
			}
			x.sim.DeleteLoadBalancer(x.spec.Settings[plan.AnnLoadBalancerID])
			x.delete(x.spec)
			x.wantNothing("after the deletion")
		})
	}
}

// TestSecondFamilyThatCannotBeServed: an event says why, and the Service is served by its first
// family, whether it requires two or only prefers them: other controllers serve no second at all.
func TestSecondFamilyThatCannotBeServed(t *testing.T) {
	tests := []struct {
		name, conf, want string
		dual             bool
		prepare          func(*lbTest)
	}{
		{name: "no subnet of the family", want: "has no IPv6 subnet"},
		{name: "source ranges", dual: true, want: "spec.loadBalancerSourceRanges", prepare: func(x *lbTest) {
			x.spec.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
		}},
		{name: "a port of one's own", dual: true, want: plan.AnnPortID, prepare: func(x *lbTest) {
			p := x.neutron("POST", "ports", map[string]any{"port": map[string]any{"network_id": x.sim.Defaults().NetworkID,
				"fixed_ips": []any{map[string]any{"subnet_id": x.sim.Defaults().SubnetID}}}})
			x.spec.Settings[plan.AnnPortID] = p["port"].(map[string]any)["id"].(string)
		}},
		{name: "provider ovn", dual: true, conf: "lb-provider=ovn\n", want: "provider ovn gave load balancer"},
		{name: "made with one family", dual: true, want: "which is fixed at creation", prepare: func(x *lbTest) {
			families := x.spec.IPFamilies
			x.spec.IPFamilies = families[:1]
			x.ensure(x.spec)
			x.spec.IPFamilies = families
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := newLBTest(t, 2, tt.conf)
			if tt.dual {
				x = newDualStackTest(t, 2, tt.conf)
			}
			x.spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
			if tt.prepare != nil {
				tt.prepare(x)
			}
			status := x.ensure(x.spec)
			if len(status.Ingress) != 1 {
				t.Fatalf("%+v", status)
			}
			if text := strings.Join(status.Warnings, "\n"); !strings.Contains(text, "only IPv4 is served, not IPv6: ") || !strings.Contains(text, tt.want) {
				t.Errorf("warnings %q, want one that says %q", status.Warnings, tt.want)
			}
			x.delete(x.spec)
		})
	}
}

// TestRestrictedDualStack: ranges that come later would take an amphora to ERROR.
func TestRestrictedDualStack(t *testing.T) {
	x := newDualStackTest(t, 2, "")
	x.ensure(x.spec)
	x.spec.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	x.sim.ResetRequests()
	_, err := x.lbs.Ensure(testContext(t), x.spec)
	if cloud.KindOf(err) != cloud.KindUnsupported || x.sim.Mutations() > 0 {
		t.Errorf("%v, %d changes; want KindUnsupported and none", err, x.sim.Mutations())
	}
	x.spec.SourceRanges = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	x.ensure(x.spec)
}

// TestSecondSubnetIsTheNodes: of several subnets of the second family the VIP is in the Nodes'.
func TestSecondSubnetIsTheNodes(t *testing.T) {
	x := newDualStackTest(t, 2, "", "fd99::/64")
	status := x.ensure(x.spec)
	node, _ := family.Address(x.all[0], true)
	if got := netip.MustParseAddr(status.Ingress[1].IP); netip.PrefixFrom(got, 64).Masked() != netip.PrefixFrom(node, 64).Masked() {
		t.Errorf("the VIP is %s, the first node %s", got, node)
	}
}
