package octavia

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// memberSubnetsOf are the subnets of all members.
func memberSubnetsOf(tree *plan.Tree) (out []string) {
	for _, p := range tree.Pools {
		for _, m := range p.Members {
			if !slices.Contains(out, m.SubnetID) {
				out = append(out, m.SubnetID)
			}
		}
	}
	return out
}

// TestComplaint2638MemberSubnet: each member is in the subnet of its own port, wherever the
// VIP is, and a subnet that is named later takes effect when the members change: existing load
// balancers were made by others in the same way.
func TestComplaint2638MemberSubnet(t *testing.T) {
	x := newEffectTest(t)
	x.settings[plan.AnnSubnetID] = x.subnet // the VIP's, not the Nodes'
	x.run("")
	if x.err != nil {
		t.Fatal(x.err)
	}
	nodes := x.sim.Defaults().SubnetID
	if diff := cmp.Diff([]string{nodes}, memberSubnetsOf(x.tree(x.spec))); diff != "" {
		t.Errorf("members' subnets (-want +got):\n%s", diff)
	}
	x.spec.Settings[plan.AnnMemberSubnetID] = x.subnet
	x.budget("the members' subnet is named", 2, func() { x.ensure(x.spec) })
	x.spec.Members[0].Node.NodeName = "renamed"
	x.ensure(x.spec)
	if diff := cmp.Diff([]string{x.subnet}, memberSubnetsOf(x.tree(x.spec))); diff != "" {
		t.Errorf("members' subnets once one is named (-want +got):\n%s", diff)
	}
	x.budget("unchanged", 2, func() { x.ensure(x.spec) })
	x.restart()
	x.sim.ResetRequests()
	x.ensure(x.spec)
	if n := x.sim.Mutations(); n > 0 {
		t.Errorf("an unchanged Service after a restart makes %d changes", n)
	}
}

// TestVIPIsAmongTheNodesWhenNoneIsSelected: a selector that selects no Node yet makes a load balancer
// without members, in the subnet of those that there are.
func TestVIPIsAmongTheNodesWhenNoneIsSelected(t *testing.T) {
	x := newLBTest(t, 2, "")
	x.base = func(conf string) string {
		return strings.Replace(conf, "\nsubnet-id = "+x.sim.Defaults().SubnetID+"\n", "\n", 1)
	}
	x.restart()
	x.spec.Members, x.spec.Candidates = nil, x.all
	status := x.ensure(x.spec)
	if got := x.lb(status.Annotations[plan.AnnLoadBalancerID]).VIPSubnetID; got != x.sim.Defaults().SubnetID {
		t.Errorf("the VIP is in subnet %s, the Nodes in %s", got, x.sim.Defaults().SubnetID)
	}
	for _, p := range x.tree(x.spec).Pools {
		if len(p.Members) > 0 {
			t.Errorf("pool %s has members: %+v", p.Name, p.Members)
		}
	}
	x.spec.Members = x.all[1:]
	x.ensure(x.spec)
	x.wantConverged(x.spec, "amphora")
}

// TestMemberSubnetOfOneFamily: the subnet that is named holds members of its family only.
func TestMemberSubnetOfOneFamily(t *testing.T) {
	x := newDualStackTest(t, 2, "")
	x.spec.Settings[plan.AnnMemberSubnetID] = x.sim.Defaults().SubnetID
	x.ensure(x.spec)
	for _, p := range x.tree(x.spec).Pools {
		for _, m := range p.Members {
			if v6 := m.Endpoint().Addr().Is6(); v6 == (m.SubnetID == x.sim.Defaults().SubnetID) {
				t.Errorf("member %s is in subnet %s", m.Address, m.SubnetID)
			}
		}
	}
}

// TestComplaintAffinityChangesBothWays: other controllers set it when they make a pool, only.
func TestComplaintAffinityChangesBothWays(t *testing.T) {
	x := newLBTest(t, 2, "")
	for _, timeout := range []time.Duration{0, time.Hour, 0} {
		x.spec.SessionAffinityTimeout = timeout
		x.ensure(x.spec)
		for _, p := range x.tree(x.spec).Pools {
			if p.ByClientIP != (timeout > 0) {
				t.Errorf("timeout %s: pool %s has affinity %v", timeout, p.Name, p.ByClientIP)
			}
		}
	}
}

// TestComplaint2866LocalHasMonitors: policy Local without a monitor sends to Nodes that have
// no endpoint.
func TestComplaint2866LocalHasMonitors(t *testing.T) {
	for provider, want := range map[string]string{"amphora": plan.MonitorHTTP, "ovn": plan.MonitorTCP} {
		x := newLBTest(t, 2, "lb-provider="+provider+"\n")
		x.spec.Ports = x.spec.Ports[:1]
		x.spec.HealthCheck = &cloud.HealthCheck{Port: 31000, Path: "/healthz"}
		x.spec.Settings[plan.AnnMonitor] = "false"
		status := x.ensure(x.spec)
		for _, p := range x.tree(x.spec).Pools {
			if p.Monitor == nil || p.Monitor.Type != want {
				t.Errorf("%s: monitor %+v, want %s", provider, p.Monitor, want)
			}
			if provider == "amphora" && p.Members[0].MonitorPort != 31000 {
				t.Errorf("the members are checked at port %d", p.Members[0].MonitorPort)
			}
		}
		if text := strings.Join(status.Warnings, "\n"); provider == "ovn" && !strings.Contains(text, "no HTTP health monitors") {
			t.Errorf("ovn: nothing says what cannot be had: %q", text)
		}
	}
}

// TestProtocolChangesKeepTrafficGoing: while a pool's or a listener's protocol changes, the
// port always has a pool, and is closed between two calls at most.
func TestProtocolChangesKeepTrafficGoing(t *testing.T) {
	x := newLBTest(t, 2, "create-monitor=true\n")
	x.spec.Ports = []cloud.LoadBalancerPort{{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}}
	x.ensure(x.spec)
	for _, tt := range []struct {
		name, annotation, value string
		closed                  int // calls during which there is no listener
	}{{"PROXY protocol", plan.AnnProxyProtocol, "v2", 0}, {"no PROXY protocol", plan.AnnProxyProtocol, "false", 0}, {"X-Forwarded-For", plan.AnnForwardedFor, "true", 1}, {"plain", plan.AnnForwardedFor, "false", 1}} {
		x.spec.Settings[tt.annotation] = tt.value
		x.sim.ResetRequests()
		x.ensure(x.spec)
		x.wantConverged(x.spec, "amphora")
		closed, ready := 0, true
		for _, r := range x.sim.Requests() {
			if r.Service != "load-balancer" || r.Method == http.MethodGet {
				continue
			}
			switch {
			case r.Method == http.MethodDelete && strings.HasPrefix(r.Path, "/lbaas/listeners"):
				ready = false
			case r.Method == http.MethodPost && r.Path == "/lbaas/listeners":
				ready = true
				closed++
			case !ready:
				closed++
			}
			if r.Method == http.MethodDelete && strings.HasPrefix(r.Path, "/lbaas/pools") && !ready {
				t.Errorf("%s: the pool goes before the new listener is there", tt.name)
			}
		}
		if closed != tt.closed {
			t.Errorf("%s: closed during %d calls, want %d", tt.name, closed, tt.closed)
		}
		if n := len(x.tree(x.spec).Pools); n != 1 {
			t.Errorf("%s: %d pools are left, want 1", tt.name, n)
		}
	}
}

func TestCertificatesAreChecked(t *testing.T) {
	x := newEffectTest(t)
	refuse := func(ref, want string) {
		t.Helper()
		x.settings = cloud.Settings{plan.AnnTLSContainerRef: ref}
		x.run("")
		if cloud.KindOf(x.err) != cloud.KindInvalid || !strings.Contains(x.err.Error(), want) {
			t.Errorf("%q: %v, want KindInvalid that says %q", ref, x.err, want)
		}
		if n := len(x.sim.Snapshot().LoadBalancers); n > 0 {
			t.Errorf("%q: %d load balancers were made", ref, n)
		}
	}
	refuse("my-certificate", "use the reference of a Barbican container or secret")
	refuse("https://barbican.example.org/v1/secrets/aaaaaaaa-0000-4000-8000-00000000000e", "Barbican has no secret aaaaaaaa-0000-4000-8000-00000000000e: store the certificate")
	refuse("https://barbican.example.org/v1/containers/aaaaaaaa-0000-4000-8000-00000000000e", "Barbican has no container")
	x.settings = cloud.Settings{plan.AnnTLSContainerRef: secretRef(x)}
	x.run("")
	if x.err != nil {
		t.Fatal(x.err)
	}
	// A rotated certificate has another reference, since Barbican's secrets never change.
	second := "https://barbican.example.org/v1/secrets/" + x.sim.AddSecret("rotated", "text/plain", []byte("y"))
	x.spec.Settings[plan.AnnTLSContainerRef] = second
	x.budget("another certificate", 4, func() { x.ensure(x.spec) })
	if got := x.tree(x.spec).Listeners; !slices.ContainsFunc(got, func(l *plan.Listener) bool { return l.TLSRef == second }) {
		t.Errorf("no listener has the new certificate")
	}
	x.budget("unchanged", 2, func() { x.ensure(x.spec) })
}
