package octavia

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

func (x *lbTest) makeFIP(portID, description string) *floatingips.FloatingIP {
	x.t.Helper()
	f, err := floatingips.Create(testContext(x.t), x.op().neutron, floatingips.CreateOpts{
		FloatingNetworkID: x.lbs.cfg.LoadBalancer.FloatingNetworkID, PortID: portID, Description: description}).Extract()
	if err != nil {
		x.t.Fatal(err)
	}
	return f
}

// TestKeptFloatingIPOfAnotherServiceStays: a Service that wants its address may have it, and gives
// it back.
func TestKeptFloatingIPOfAnotherServiceStays(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.spec.Settings[plan.AnnKeepFloatingIP] = "true"
	address := x.ensure(x.spec).Ingress[0].IP
	x.delete(x.spec)
	second := x.service("second", nil)
	second.LoadBalancerIP = netip.MustParseAddr(address)
	if got := x.ensure(second).Ingress[0].IP; got != address {
		t.Errorf("address %s, want %s", got, address)
	}
	x.delete(second)
	if left := x.sim.Snapshot().FloatingIPs; len(left) != 1 || len(x.sim.Snapshot().LoadBalancers) != 0 {
		t.Errorf("objects %q are left, want the floating IP that was to be kept", x.objects())
	}
}

// TestKeptFloatingIPOfAnotherClusterStays: it has the description that the Service's would have, and
// any tenant may write its address into an annotation.
func TestKeptFloatingIPOfAnotherClusterStays(t *testing.T) {
	for _, ensure := range []bool{false, true} {
		x := newLBTest(t, 1, "")
		theirs := x.makeFIP("", plan.NamesOf(x.spec.LoadBalancerRef).FIPDescription)
		x.spec.Settings[plan.AnnAddress] = theirs.FloatingIP
		if ensure {
			if got := x.ensure(x.spec).Ingress[0].IP; got == theirs.FloatingIP {
				t.Errorf("the Service takes the address %s of another", got)
			}
		}
		x.delete(x.spec)
		if left := x.sim.Snapshot().FloatingIPs; len(left) != 1 || left[0].ID != theirs.ID {
			t.Errorf("ensured %v: objects %q are left, want the other cluster's floating IP", ensure, x.objects())
		}
	}
}

func TestRequestedFloatingIP(t *testing.T) {
	x := newLBTest(t, 1, "")
	users := x.makeFIP("", "the user's")
	x.spec.LoadBalancerIP = netip.MustParseAddr(users.FloatingIP)
	if got := x.ensure(x.spec).Ingress[0].IP; got != users.FloatingIP {
		t.Errorf("address %s, want %s", got, users.FloatingIP)
	}
	if n := len(x.sim.Snapshot().FloatingIPs); n != 1 {
		t.Errorf("%d floating IPs, want the user's only", n)
	}
	second := x.service("second", nil)
	second.LoadBalancerIP = x.spec.LoadBalancerIP
	if _, err := x.lbs.Ensure(testContext(t), second); cloud.KindOf(err) != cloud.KindConflict || !strings.Contains(err.Error(), "is in use by port") {
		t.Errorf("the same address for a second Service: %v, want KindConflict", err)
	}
	x.delete(second)
	x.delete(x.spec)
	left := x.sim.Snapshot().FloatingIPs
	if len(left) != 1 || left[0].ID != users.ID {
		t.Errorf("floating IPs %v are left, want the user's", left)
	}
}

func TestKeepFloatingIP(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.spec.Settings[plan.AnnKeepFloatingIP] = "true"
	address := x.ensure(x.spec).Ingress[0].IP
	x.delete(x.spec)
	if s := x.sim.Snapshot(); len(s.FloatingIPs) != 1 || len(s.LoadBalancers) != 0 {
		t.Errorf("objects %q, want the floating IP only", x.objects())
	}
	// Made again with that address requested, the Service gets it back.
	again := x.service("web", nil)
	again.LoadBalancerIP = netip.MustParseAddr(address)
	if got := x.ensure(again).Ingress[0].IP; got != address {
		t.Errorf("address %s, want %s", got, address)
	}
	x.delete(again)
	x.wantNothing("after the deletion")
}

func TestInternalLoadBalancer(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	x.spec.Settings[plan.AnnInternal] = "true"
	status := x.ensure(x.spec)
	if s := x.sim.Snapshot(); len(s.FloatingIPs) != 0 {
		t.Errorf("an internal load balancer has floating IPs %v", s.FloatingIPs)
	}
	if vip := x.lb(status.Annotations[plan.AnnLoadBalancerID]).VIPAddress; status.Ingress[0].IP != vip {
		t.Errorf("address %s, want the VIP %s", status.Ingress[0].IP, vip)
	}
	x.budget("unchanged", 2, func() { x.ensure(x.spec) })
	// A floating IP that a user attaches is not ours to remove.
	x.makeFIP(x.lb(status.Annotations[plan.AnnLoadBalancerID]).VIPPortID, "the user's")
	x.restart()
	x.ensure(x.spec)
	x.delete(x.spec)
	if s := x.sim.Snapshot(); len(s.FloatingIPs) != 1 || len(s.LoadBalancers) != 0 {
		t.Errorf("objects %q, want the user's floating IP only", x.objects())
	}
}

func TestInternalVIPAddress(t *testing.T) {
	x := newLBTest(t, 1, "internal-lb=true\n")
	x.ensure(x.spec) // takes some address, so that the next one cannot be it by chance
	vip := netip.MustParseAddr(x.spec.CurrentIngress[0].IP)
	x.delete(x.spec)
	second := x.service("second", nil)
	second.LoadBalancerIP = vip
	if got := x.ensure(second).Ingress[0].IP; got != vip.String() {
		t.Errorf("address %s, want %s", got, vip)
	}
	second.LoadBalancerIP = vip.Next()
	status := x.ensure(second)
	if len(status.Warnings) != 1 || !strings.Contains(status.Warnings[0], "fixed at creation") {
		t.Errorf("warnings %q, want one that says that the VIP is fixed", status.Warnings)
	}
}

func TestFloatingSubnets(t *testing.T) {
	x := newLBTest(t, 1, "floating-subnet=no-such-*\n")
	if _, err := x.lbs.Ensure(testContext(t), x.spec); cloud.KindOf(err) != cloud.KindInvalid || !strings.Contains(err.Error(), `matches name "no-such-*"`) {
		t.Errorf("Ensure: %v, want KindInvalid", err)
	}
	x.spec.Settings[plan.AnnFloatingSubnet] = "!~no-such-.*"
	if got := x.ensure(x.spec).Ingress[0].IP; got == "" {
		t.Error("no address")
	}
}

func TestPublishedStatus(t *testing.T) {
	x := newLBTest(t, 1, "enable-ingress-hostname=true\n")
	x.spec.Settings[plan.AnnProxyProtocol] = "v1"
	in := x.ensure(x.spec).Ingress[0]
	if address := x.spec.Settings[plan.AnnAddress]; in.IP != "" || in.Hostname != address+".nip.io" {
		t.Errorf("ingress %+v, want host name %s.nip.io", in, address)
	}
	x.spec.Settings[plan.AnnHostname] = "web.example.org"
	if in := x.ensure(x.spec).Ingress[0]; in.IP != "" || in.Hostname != "web.example.org" {
		t.Errorf("ingress %+v, want the annotation's host name", in)
	}
	x.lbs.cfg.LoadBalancer.EnableIngressHostname = false
	delete(x.spec.Settings, plan.AnnHostname)
	if in := x.ensure(x.spec).Ingress[0]; in.IP == "" || in.IPMode == nil || *in.IPMode != corev1.LoadBalancerIPModeProxy {
		t.Errorf("ingress %+v, want the address with ipMode Proxy", in)
	}
}

// TestInternalByConfigurationWhenAnnotationSaysFalse: internal-lb of cloud.conf keeps Services from
// being published, whatever they say.
func TestInternalByConfigurationWhenAnnotationSaysFalse(t *testing.T) {
	x := newLBTest(t, 1, "internal-lb=true\n")
	x.spec.Settings[plan.AnnInternal] = "false"
	status := x.ensure(x.spec)
	if fips := x.sim.Snapshot().FloatingIPs; len(fips) > 0 {
		t.Errorf("floating IPs %v", fips)
	}
	if !strings.Contains(strings.Join(status.Warnings, "\n"), "internal-lb makes all load balancers internal") {
		t.Errorf("warnings %q", status.Warnings)
	}
}

func TestTagFilter(t *testing.T) {
	for text, want := range map[string][2]string{
		"a,b": {"tags-any", "a,b"}, " a  b,": {"tags-any", "a,b"}, "&a,b": {"tags", "a,b"}, "!a,b": {"not-tags", "a,b"}, "!&a b": {"not-tags-any", "a,b"},
		"": {"tags-any", ""}, "!": {"not-tags", ""}, "&!a": {"tags", "!a"},
	} {
		if name, tags := tagFilter(text); name != want[0] || tags != want[1] {
			t.Errorf("%q: %s=%s, want %q", text, name, tags, want)
		}
	}
}

// TestAttachedFloatingIPStaysWhenLoadBalancerIPDiffers: the address that clients use is not given
// up for another one.
func TestAttachedFloatingIPStaysWhenLoadBalancerIPDiffers(t *testing.T) {
	x := newLBTest(t, 1, "")
	published := x.ensure(x.spec).Ingress[0].IP
	before := x.sim.Mutations()
	other := x.makeFIP("", "the user's")
	x.spec.LoadBalancerIP = netip.MustParseAddr(other.FloatingIP)
	status := x.ensure(x.spec)
	if status.Ingress[0].IP != published || len(status.Warnings) != 1 || !strings.Contains(status.Warnings[0], "spec.loadBalancerIP "+other.FloatingIP+" has no effect") {
		t.Errorf("published %+v, warnings %q; want %s and one warning", status.Ingress, status.Warnings, published)
	}
	if n := x.sim.Mutations() - before; n > 1 { // the user's own
		t.Errorf("%d changes of the cloud", n)
	}
}

// withoutFloatingNetwork leaves the network of floating IPs to be found.
func (x *lbTest) withoutFloatingNetwork() {
	x.base = func(conf string) string {
		var out strings.Builder
		for line := range strings.Lines(conf) {
			if !strings.HasPrefix(line, "floating-network-id") {
				out.WriteString(line)
			}
		}
		return out.String()
	}
	x.restart()
}

// TestFloatingIPWhenThereAreSeveralExternalNetworks: it is of the first one with an IPv4 subnet.
func TestFloatingIPWhenThereAreSeveralExternalNetworks(t *testing.T) {
	x := newEffectTest(t) // which has a second one
	x.asAdmin(func() {
		x.neutron("POST", "networks", map[string]any{"network": map[string]any{"name": "0-without-subnets", "router:external": true}})
		v6 := x.neutron("POST", "networks", map[string]any{"network": map[string]any{"name": "0-of-ipv6", "router:external": true}})["network"].(map[string]any)["id"]
		x.neutron("POST", "subnets", map[string]any{"subnet": map[string]any{"network_id": v6, "ip_version": 6, "cidr": "2001:db8::/64"}})
	})
	x.withoutFloatingNetwork()
	x.ensure(x.spec)
	fips := x.sim.Snapshot().FloatingIPs
	if len(fips) != 1 || x.spec.CurrentIngress[0].IP != fips[0].Name {
		t.Errorf("floating IPs %+v, published %+v", fips, x.spec.CurrentIngress)
	}
}

// TestVIPIsPublishedWhenThereIsNoExternalNetwork: the Service is served as far as that is possible,
// and gets its floating IP once there is a network for it.
func TestVIPIsPublishedWhenThereIsNoExternalNetwork(t *testing.T) {
	x := newLBTest(t, 1, "")
	external := x.lbs.cfg.LoadBalancer.FloatingNetworkID
	setExternal := func(is bool) {
		x.asAdmin(func() {
			x.neutron("PUT", "networks/"+external, map[string]any{"network": map[string]any{"router:external": is}})
		})
	}
	x.withoutFloatingNetwork()
	setExternal(false)
	status := x.ensure(x.spec)
	if vip := x.lb(status.Annotations[plan.AnnLoadBalancerID]).VIPAddress; status.Ingress[0].IP != vip || !strings.Contains(strings.Join(status.Warnings, ""), "there is no external network") {
		t.Errorf("published %+v, warnings %q; want the VIP %s and a warning", status.Ingress, status.Warnings, vip)
	}
	setExternal(true)
	status = x.ensure(x.spec)
	if fips := x.sim.Snapshot().FloatingIPs; len(fips) != 1 || status.Ingress[0].IP != fips[0].Name || len(status.Warnings) > 0 {
		t.Errorf("floating IPs %+v, published %+v, warnings %q", fips, status.Ingress, status.Warnings)
	}
}

// TestFloatingSubnetOfAnotherNetwork: nothing is made for a Service that cannot have its address.
func TestFloatingSubnetOfAnotherNetwork(t *testing.T) {
	x := newLBTest(t, 1, "")
	for _, id := range []string{x.sim.Defaults().SubnetID, missingID} {
		x.spec.Settings[plan.AnnFloatingSubnetID] = id
		if _, err := x.lbs.Ensure(testContext(t), x.spec); cloud.KindOf(err) != cloud.KindInvalid || !strings.Contains(err.Error(), "correct floating-subnet-id") {
			t.Errorf("%s: %v, want KindInvalid", id, err)
		}
	}
	x.wantNothing("after the refusal")
}
