package openstack

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func (x *lbTest) makeFIP(portID, description string) *floatingips.FloatingIP {
	x.t.Helper()
	f, err := floatingips.Create(testContext(x.t), x.op().neutron, floatingips.CreateOpts{
		FloatingNetworkID: x.lbs.c.cfg.LoadBalancer.FloatingNetworkID, PortID: portID, Description: description}).Extract()
	if err != nil {
		x.t.Fatal(err)
	}
	return f
}

func TestRequestedFloatingIP(t *testing.T) {
	x := newLBTest(t, 1, "")
	users := x.makeFIP("", "the user's")
	x.ensure(x.spec) // with one of ours
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
	x.spec.Settings[annKeepFloatingIP] = "true"
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
	x.spec.Settings[annInternal] = "true"
	status := x.ensure(x.spec)
	if s := x.sim.Snapshot(); len(s.FloatingIPs) != 0 {
		t.Errorf("an internal load balancer has floating IPs %v", s.FloatingIPs)
	}
	if vip := x.lb(status.Annotations[annLoadBalancerID]).VIPAddress; status.Ingress[0].IP != vip {
		t.Errorf("address %s, want the VIP %s", status.Ingress[0].IP, vip)
	}
	x.budget("unchanged", 2, func() { x.ensure(x.spec) })
	// A floating IP that a user attaches is not ours to remove.
	x.makeFIP(x.lb(status.Annotations[annLoadBalancerID]).VIPPortID, "the user's")
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
	x.spec.Settings[annFloatingSubnet] = "!~^no-such-"
	if got := x.ensure(x.spec).Ingress[0].IP; got == "" {
		t.Error("no address")
	}
}

func TestSubnetNameMatcher(t *testing.T) {
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"", "any", true}, {"pub*", "public", true}, {"pub*", "private", false}, {"!pub*", "private", true}, {"!pub*", "public", false},
		{"~^pub", "public", true}, {"~^pub", "republic", false}, {"!~^pub", "republic", true}, {"!~^pub", "public", false},
	}
	for _, tt := range tests {
		match, err := subnetNameMatcher(tt.pattern)
		if err != nil || match(tt.name) != tt.want {
			t.Errorf("pattern %q matches %q = %v, %v; want %v", tt.pattern, tt.name, !tt.want, err, tt.want)
		}
	}
	for _, bad := range []string{"~(", "[", "!["} {
		if _, err := subnetNameMatcher(bad); err == nil {
			t.Errorf("pattern %q is taken", bad)
		}
	}
}

func TestPublishedStatus(t *testing.T) {
	x := newLBTest(t, 1, "enable-ingress-hostname=true\n")
	x.spec.Settings[annProxyProtocol] = "v1"
	in := x.ensure(x.spec).Ingress[0]
	if address := x.spec.Settings[annAddress]; in.IP != "" || in.Hostname != address+".nip.io" {
		t.Errorf("ingress %+v, want host name %s.nip.io", in, address)
	}
	x.spec.Settings[annHostname] = "web.example.org"
	if in := x.ensure(x.spec).Ingress[0]; in.IP != "" || in.Hostname != "web.example.org" {
		t.Errorf("ingress %+v, want the annotation's host name", in)
	}
	x.lbs.c.cfg.LoadBalancer.EnableIngressHostname = false
	delete(x.spec.Settings, annHostname)
	if in := x.ensure(x.spec).Ingress[0]; in.IP == "" || in.IPMode == nil || *in.IPMode != corev1.LoadBalancerIPModeProxy {
		t.Errorf("ingress %+v, want the address with ipMode Proxy", in)
	}
}

// TestInternalByConfigurationWhenAnnotationSaysFalse: internal-lb of cloud.conf keeps Services from
// being published, whatever they say.
func TestInternalByConfigurationWhenAnnotationSaysFalse(t *testing.T) {
	x := newLBTest(t, 1, "internal-lb=true\n")
	x.spec.Settings[annInternal] = "false"
	status := x.ensure(x.spec)
	if fips := x.sim.Snapshot().FloatingIPs; len(fips) > 0 {
		t.Errorf("floating IPs %v", fips)
	}
	if !strings.Contains(strings.Join(status.Warnings, "\n"), "internal-lb makes all load balancers internal") {
		t.Errorf("warnings %q", status.Warnings)
	}
}
