package elbv2_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

var (
	four = []corev1.IPFamily{corev1.IPv4Protocol}
	six  = []corev1.IPFamily{corev1.IPv6Protocol}
	both = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
)

// startDual is start in subnets that have IPv6.
func startDual(t *testing.T, conf string) *world {
	t.Helper()
	w := start(t, conf, awssim.Options{})
	w.DualStack()
	return w
}

// of is the Service with other IP families.
func (w *world) of(families []corev1.IPFamily) *cloud.LoadBalancerSpec {
	spec := w.service("web")
	spec.IPFamilies = families
	return spec
}

// families are those of the load balancer and its target groups in use, as "dualstack → ipv4".
func (w *world) families() string {
	w.t.Helper()
	balancers, err := w.elb.LoadBalancers(nil, nil)
	if err != nil || len(balancers) != 1 {
		w.t.Fatalf("%d load balancers, %v", len(balancers), err)
	}
	groups, err := w.elb.TargetGroups(nil, nil, balancers[0].ARN)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, g := range groups {
		out = append(out, g.IPAddressType)
	}
	slices.Sort(out)
	return balancers[0].IPAddressType + " → " + strings.Join(slices.Compact(out), " ")
}

func (w *world) wantFamilies(want string) {
	w.t.Helper()
	if got := w.families(); got != want {
		w.t.Errorf("%s, want %s", got, want)
	}
}

func (w *world) wantCounts(want string) {
	w.t.Helper()
	if got := w.counts(); got != want {
		w.t.Errorf("%q, want %q", got, want)
	}
}

// warned has a Service served whose one Warning has a text in it, none where that is "".
func (w *world) warned(spec *cloud.LoadBalancerSpec, want string) {
	w.t.Helper()
	got := w.ensure(spec).Warnings
	if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
		w.t.Errorf("warned of %q, want %q", got, want)
	}
}

// kubernetes/cloud-provider-aws#1219, #243: Services with both IP families were reached by IPv4 alone.
func TestComplaint1219DualStackServicesAreReachedByBothFamilies(t *testing.T) {
	w := startDual(t, "")
	spec := w.of(both)
	w.warned(spec, "")
	w.must(spec) // by IPv6 clients come with the load balancer's addresses of IPv4
	w.wantFamilies("dualstack → ipv4")
	w.counts()
	w.ensure(spec)
	w.restart()
	w.ensure(spec)
	w.wantCounts("")

	w.ensure(w.of(four))
	w.wantFamilies("ipv4 → ipv4")
	w.wantCounts("SetIpAddressType 1")
	w.restart()
	w.ensure(w.of(four))
	w.wantCounts("")
	w.delete(spec)
}

// What the existing manager has made for such a Service becomes dual-stack where its subnets allow, and nobody notices by IPv4.
func TestOneOfIPv4IsReachedByIPv6Too(t *testing.T) {
	w := startDual(t, "")
	w.ensure(w.of(four))
	w.restart()
	spec := w.of(both)
	w.warned(spec, "")
	w.wantCounts("AddTags 1, SetIpAddressType 1")
	w.wantFamilies("dualstack → ipv4")
	balancers, _ := w.elb.LoadBalancers(nil, nil)
	if _, err := w.elb.SetIPAddressType(balancers[0].ARN, "ipv4"); err != nil {
		t.Fatal(err)
	}
	spec.Verify = true
	w.Age(2 * time.Minute)
	w.Requests()
	if status := w.ensure(spec); !slices.Contains(status.Repaired, "the IP address type was set") {
		t.Errorf("%q", status.Repaired)
	}
	w.wantFamilies("dualstack → ipv4")
}

// Others have helped themselves, as the existing manager makes none.
func TestOneThatOthersHaveMadeDualStackStays(t *testing.T) {
	w := startDual(t, "")
	spec := w.service("web")
	spec.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	w.ensure(spec)
	balancers, _ := w.elb.LoadBalancers(nil, nil)
	if _, err := w.elb.SetIPAddressType(balancers[0].ARN, "dualstack"); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.warned(spec, "")
	w.wantCounts("")
	w.wantFamilies("dualstack → ipv4")
}

func TestSubnetsWithoutIPv6ServeIPv4(t *testing.T) {
	w := startDual(t, "")
	w.EC2.SetSubnetIPv6(w.Subnets[1].ID, "")
	w.warned(w.of(both), "subnets "+w.Subnets[1].ID+" have no range of IPv6")
	w.wantFamilies("ipv4 → ipv4")
	w.warned(w.of(six), "its Nodes do not serve it by IPv4")
	w.counts()

	w.EC2.SetSubnetIPv6(w.Subnets[1].ID, "2001:db8:0:2::/64")
	w.Age(10 * time.Minute)
	w.warned(w.of(both), "")
	w.wantFamilies("dualstack → ipv4")
}

func TestAWayToTheInternetIsNeededUnlessInternal(t *testing.T) {
	w := start(t, "", awssim.Options{})
	w.EC2.SetSubnetIPv6(w.Subnets[0].ID, "2001:db8:0:1::/64")
	spec := w.of(both)
	spec.Settings[annotations.Subnets] = w.Subnets[0].ID
	w.warned(spec, "no route of IPv6 to an internet gateway")
	w.wantFamilies("ipv4 → ipv4")
	w.delete(spec)
	spec.Settings[annotations.Internal] = "true"
	w.warned(spec, "")
	w.wantFamilies("dualstack → ipv4")
}

// The IAM policy of before does not allow it, which must keep nothing else from being done.
func TestWhoMayNotSetTheAddressTypeServesByIPv4(t *testing.T) {
	w := startDual(t, "")
	w.ensure(w.of(four))
	defer w.AddFault(apitest.Fault{Action: "SetIpAddressType", Status: http.StatusForbidden, Code: "AccessDenied", Message: "not authorized to perform"})()
	spec := w.of(both)
	spec.Ports = spec.Ports[:1]
	w.warned(spec, "not authorized to perform")
	w.wantFamilies("ipv4 → ipv4")
	if strings.Contains(w.state(), "listener TCP 443") {
		t.Errorf("%s", w.state())
	}
}

func TestUDPIsServedByIPv4(t *testing.T) {
	w := startDual(t, "")
	spec := w.of(both)
	w.ensure(spec)
	for i := range spec.Ports {
		spec.Ports[i].Protocol = corev1.ProtocolUDP
	}
	w.warned(spec, "UDP by IPv6")
	w.wantFamilies("ipv4 → ipv4")
}

// Nodes do not see who comes by IPv6, so that only the load balancer's own security group can keep anybody out.
func TestSourceRangesHoldForBothFamilies(t *testing.T) {
	ranges := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:ffff::/48")}
	w := startDual(t, "")
	spec := w.of(both)
	w.ensure(spec)
	spec.SourceRanges = ranges
	w.warned(spec, "NLBSecurityGroupMode = Managed")
	w.wantFamilies("ipv4 → ipv4")
	w.delete(spec)

	w.conf = managed
	w.restart()
	spec.HealthCheck = &cloud.HealthCheck{Port: 31000, Path: "/healthz"} // so that no check has a rule that lets clients in
	w.warned(spec, "")
	w.wantFamilies("dualstack → ipv4")
	state := w.state()
	for _, want := range []string{
		" tcp 80-80 192.0.2.0/24 ", " tcp 80-80 2001:db8:ffff::/48 ", " icmp 3-4 192.0.2.0/24 ", " icmpv6 2-0 2001:db8:ffff::/48 ",
		"rule of nodes tcp 30080-30080 192.0.2.0/24 kubernetes.io/rule/nlb/client", "rule of nodes tcp 30080-30080 10.0.0.0/18 kubernetes.io/rule/nlb/health",
	} {
		if !strings.Contains(state, want) {
			t.Errorf("no %q:\n%s", want, state)
		}
	}
	w.counts()
	w.restart()
	w.ensure(spec)
	w.wantCounts("")
	spec.IPFamilies = four
	w.ensure(spec)
	state = w.state()
	if strings.Contains(state, "2001:db8") || strings.Contains(state, "tcp 30080-30080 10.0.0.0/18") {
		t.Errorf("%s", state)
	}
}

// primary adds a Node with an address of IPv6 that stays.
func (w *world) primary() string {
	i := w.AddInstance(ec2.Instance{Tags: map[string]string{clusterTag: "owned"}, Interfaces: []*ec2.NetworkInterface{{Groups: []string{w.group},
		IPv6: []string{fmt.Sprintf("2001:db8:0:1::%x", len(w.nodes)+1)}, PrimaryIPv6: true}}})
	w.nodes = append(w.nodes, cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: fmt.Sprint("node-", len(w.nodes)), ProviderID: "aws:///" + i.Zone + "/" + i.ID}})
	return i.ID
}

func TestServicesOfIPv6AloneReachNodesByIPv6(t *testing.T) {
	w := startDual(t, "")
	w.warned(w.of(six), "2 Nodes get no traffic, as their instances have no primary IPv6 address")
	w.wantFamilies("dualstack → ipv4") // nothing better can be had
	one := w.primary()
	spec := w.of(six)
	w.warned(spec, "2 Nodes get no traffic")
	w.wantFamilies("dualstack → ipv6")
	state := w.state()
	for _, want := range []string{"group 30080 TCP [" + one + "]", "rule of nodes tcp 30080-30080 ::/0 ", "rule of nodes icmpv6 2-0 ::/0 "} {
		if !strings.Contains(state, want) {
			t.Errorf("no %q:\n%s", want, state)
		}
	}
	if strings.Contains(state, "0.0.0.0/0") || strings.Contains(state, "nlb/health") {
		t.Errorf("%s", state)
	}
	two := w.primary()
	spec = w.of(six)
	w.Requests()
	w.again(func() error { return w.UpdateMembers(t.Context(), spec) })
	w.wantCounts("RegisterTargets 2")
	w.restart()
	w.ensure(spec)
	w.wantCounts("")
	if !strings.Contains(w.state(), one) || !strings.Contains(w.state(), two) {
		t.Errorf("%s", w.state())
	}
	w.warned(w.of([]corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}), "2 Nodes get no traffic")
	w.wantFamilies("dualstack → ipv6") // which serves as well
	w.delete(spec)
	if left := w.state(); strings.Contains(left, "group 30080") || strings.Contains(left, "rule of nodes") {
		t.Errorf("left over:\n%s", left)
	}
}

func TestCrashWhileAServiceBecomesDualStack(t *testing.T) {
	crashes(t, func(w *world) {
		w.DualStack()
		w.primary()
		w.ensure(w.of(four))
	}, func(w *world) error {
		_, err := w.Ensure(t.Context(), w.of(six))
		return err
	}, func(w *world) {
		w.ensure(w.of(six))
		w.wantFamilies("dualstack → ipv6")
		w.delete(w.of(six))
	})
}
