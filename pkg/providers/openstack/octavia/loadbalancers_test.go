package octavia

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
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// lbTest is a simulated cloud with servers, the provider under test and one Service.
type lbTest struct {
	t    *testing.T
	sim  *ossim.Sim
	lbs  *LoadBalancers
	conf string
	// base, when set, changes the simulator's cloud.conf before conf is appended.
	base func(conf string) string
	// admin has restart log in as an administrator.
	admin bool
	all   []cloud.LoadBalancerMember
	spec  *cloud.LoadBalancerSpec
}

var testCluster = cloud.Cluster{Name: "kubernetes", UID: "0a1b2c3d-0000-4000-8000-000000000001"}

// newLBTest starts a simulator with n servers; conf is appended to its cloud.conf, whose
// last section is made [LoadBalancer].
func newLBTest(t *testing.T, n int, conf string) *lbTest {
	t.Helper()
	return newLBTestOn(t, ossim.Options{StateDelay: 3 * time.Millisecond}, n, conf)
}

func newLBTestOn(t *testing.T, options ossim.Options, n int, conf string) *lbTest {
	t.Helper()
	sim := ossim.ForTest(t, options)
	x := &lbTest{t: t, sim: sim, conf: conf}
	for _, s := range x.sim.SeedServers(ossim.Seed{Count: n, NamePrefix: "node-"}) {
		m := cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: s.Name, ProviderID: "openstack:///" + s.ID}}
		for _, a := range s.Addresses {
			m.Addresses = append(m.Addresses, netip.MustParseAddr(fmt.Sprint(a)))
		}
		x.all = append(x.all, m)
	}
	x.spec = x.service("web", nil)
	x.restart()
	return x
}

// service is a Service with two ports, TCP and UDP.
func (x *lbTest) service(name string, settings cloud.Settings) *cloud.LoadBalancerSpec {
	if settings == nil {
		settings = cloud.Settings{}
	}
	return &cloud.LoadBalancerSpec{
		LoadBalancerRef: cloud.LoadBalancerRef{Cluster: testCluster, Namespace: "default", Name: name, UID: "uid-" + name, Settings: settings},
		Ports: []cloud.LoadBalancerPort{
			{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080},
			{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053},
		},
		Members:    slices.Clone(x.all),
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
	}
}

// restart makes a new provider that knows nothing of what the old one did.
func (x *lbTest) restart() {
	x.t.Helper()
	conf := x.sim.CloudConf()
	if x.base != nil {
		conf = x.base(conf)
	}
	if x.admin {
		conf = strings.NewReplacer(ossim.UserName, ossim.AdminName, ossim.UserPassword, ossim.AdminPassword, ossim.ProjectName, ossim.AdminName).Replace(conf)
	}
	x.lbs = newLoadBalancers(x.t, x.sim, conf+"\n[LoadBalancer]\n"+x.conf)
	x.lbs.waits = waits{first: 4 * time.Millisecond, most: 20 * time.Millisecond, total: 10 * time.Second, brief: 10 * time.Second, retry: time.Millisecond}
}

// publish does to the spec what the service controller does to the Service.
func publish(spec *cloud.LoadBalancerSpec, status *cloud.LoadBalancerStatus) {
	spec.CurrentIngress = status.Ingress
	for k, v := range status.Annotations {
		spec.Settings[k] = v
	}
}

func (x *lbTest) ensure(spec *cloud.LoadBalancerSpec) *cloud.LoadBalancerStatus {
	x.t.Helper()
	status, err := x.lbs.Ensure(testContext(x.t), spec)
	if err != nil {
		x.t.Fatalf("Ensure: %v", err)
	}
	publish(spec, status)
	return status
}

func (x *lbTest) delete(spec *cloud.LoadBalancerSpec) {
	x.t.Helper()
	if err := x.lbs.Delete(testContext(x.t), spec); err != nil {
		x.t.Fatalf("Delete: %v", err)
	}
}

// calls counts requests since the last reset; those that wait for Octavia are left out.
func (x *lbTest) calls() (n int, list []string) {
	for _, r := range x.sim.Requests() {
		if r.Service == "identity" {
			continue
		}
		// A poll follows a change: it reads one load balancer by its ID and is not the first call.
		if r.Method == http.MethodGet && strings.HasPrefix(r.Path, "/lbaas/loadbalancers/") && len(list) > 0 {
			continue
		}
		list = append(list, r.Method+" "+r.Path)
	}
	return len(list), list
}

// budget runs an operation and fails the test when it costs more calls than most.
func (x *lbTest) budget(what string, most int, op func()) {
	x.t.Helper()
	x.sim.ResetRequests()
	op()
	if n, list := x.calls(); n > most {
		x.t.Errorf("%s costs %d calls, allowed are %d:\n%s", what, n, most, strings.Join(list, "\n"))
	}
}

// readOnce makes the calls that a process makes once, for whichever Service is the first.
func (x *lbTest) readOnce() {
	x.t.Helper()
	if _, err := x.op().renamedIDs(testContext(x.t)); err != nil {
		x.t.Fatal(err)
	}
}

// objects lists what a Service leaves in the cloud.
func (x *lbTest) objects() []string {
	s := x.sim.Snapshot()
	var out []string
	for kind, items := range map[string][]ossim.Item{
		"loadbalancer": s.LoadBalancers, "listener": s.Listeners, "pool": s.Pools, "member": s.Members,
		"monitor": s.HealthMonitors, "floatingip": s.FloatingIPs, "group": s.SecurityGroups,
	} {
		for _, i := range items {
			out = append(out, kind+" "+i.Name)
		}
	}
	slices.Sort(out)
	return out
}

func (x *lbTest) wantNothing(when string) {
	x.t.Helper()
	if left := x.objects(); len(left) > 0 {
		x.t.Errorf("%s, the cloud still holds\n%s", when, strings.Join(left, "\n"))
	}
}

// tree reads the load balancer as it is.
func (x *lbTest) tree(spec *cloud.LoadBalancerSpec) *plan.Tree {
	x.t.Helper()
	ctx := testContext(x.t)
	tree, err := x.op().readTree(ctx, spec.Settings[plan.AnnLoadBalancerID])
	if err != nil {
		x.t.Fatal(err)
	}
	return tree
}

// changes are those that lead from what the cloud is to what the spec wants.
func (x *lbTest) changes(spec *cloud.LoadBalancerSpec, provider string) ([]plan.Change, error) {
	x.t.Helper()
	svc, err := plan.Resolve(spec, x.lbs.cfg)
	if err != nil {
		return nil, err
	}
	names := plan.NamesOf(spec.LoadBalancerRef)
	want, err := svc.New(provider, names, false, "")
	if err != nil {
		return nil, err
	}
	changes, _, err := plan.Plan(plan.Observed{LoadBalancer: &plan.LoadBalancer{}, Tree: x.tree(spec)}, want, plan.Owner)
	return changes, err
}

// wantConverged fails when the cloud is not what the spec wants.
func (x *lbTest) wantConverged(spec *cloud.LoadBalancerSpec, provider string) {
	x.t.Helper()
	changes, err := x.changes(spec, provider)
	if err != nil || len(changes) > 0 {
		x.t.Errorf("the cloud is not as wanted: %v, %v", changes, err)
	}
	if n := len(x.sim.Snapshot().LoadBalancers); n != 1 {
		x.t.Errorf("%d load balancers, want 1", n)
	}
}

func TestLoadBalancerLifecycle(t *testing.T) {
	for _, provider := range []string{"amphora", "ovn"} {
		t.Run(provider, func(t *testing.T) {
			x := newLBTest(t, 5, "lb-provider="+provider+"\ncreate-monitor=true\n")
			t.Cleanup(func() { logCalls(t, x.sim) })
			const ports = 2
			x.spec.Members = slices.Clone(x.all[:3])
			extra := 0
			if provider == "ovn" { // monitors one by one: the provider forgets those of a fully populated create
				extra = ports
			}
			var status *cloud.LoadBalancerStatus
			x.readOnce()
			x.budget("create", 6+extra, func() { status = x.ensure(x.spec) })
			x.wantConverged(x.spec, provider)
			fips := x.sim.Snapshot().FloatingIPs
			if len(fips) != 1 || len(status.Ingress) != 1 || status.Ingress[0].IP != status.Annotations[plan.AnnAddress] {
				t.Errorf("floating IPs %v, status %+v", fips, status)
			}
			if status.Ingress[0].IPMode == nil || *status.Ingress[0].IPMode != corev1.LoadBalancerIPModeVIP {
				t.Errorf("ipMode = %v, want VIP", status.Ingress[0].IPMode)
			}
			x.budget("unchanged", 2, func() { x.ensure(x.spec) })

			x.spec.Members = slices.Clone(x.all)
			x.budget("node-set change", 1+ports, func() {
				if err := x.lbs.UpdateMembers(testContext(t), x.spec); err != nil {
					t.Fatal(err)
				}
			})
			x.wantConverged(x.spec, provider)
			x.budget("unchanged after a node-set change", 2, func() { x.ensure(x.spec) })

			x.restart()
			before := x.sim.Mutations()
			x.ensure(x.spec)
			if x.sim.Mutations() != before {
				t.Errorf("an unchanged Service after a restart changes the cloud")
			}
			x.budget("unchanged after a restart", 2, func() { x.ensure(x.spec) })
			x.restart()
			x.spec.Members = slices.Clone(x.all[1:])
			if err := x.lbs.UpdateMembers(testContext(t), x.spec); err != nil {
				t.Fatal(err)
			}
			x.wantConverged(x.spec, provider)

			x.budget("delete", 4, func() { x.delete(x.spec) })
			x.wantNothing("after the deletion")
			x.delete(x.spec)
		})
	}
}

func TestLoadBalancerChanges(t *testing.T) {
	tests := []struct {
		name   string
		change func(*cloud.LoadBalancerSpec)
		// only names providers that can do it; empty for both.
		only string
	}{
		{name: "source ranges", only: "amphora", change: func(s *cloud.LoadBalancerSpec) {
			s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.0.0.0/8")}
		}},
		{name: "session affinity", change: func(s *cloud.LoadBalancerSpec) { s.SessionAffinityTimeout = time.Hour }},
		{name: "policy Local", change: func(s *cloud.LoadBalancerSpec) {
			s.HealthCheck = &cloud.HealthCheck{Port: 31000, Path: "/healthz"}
		}},
		{name: "a port more", change: func(s *cloud.LoadBalancerSpec) {
			s.Ports = append(s.Ports, cloud.LoadBalancerPort{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, NodePort: 30443})
		}},
		{name: "a port less", change: func(s *cloud.LoadBalancerSpec) { s.Ports = s.Ports[:1] }},
		{name: "other ports in another order", change: func(s *cloud.LoadBalancerSpec) {
			s.Ports = []cloud.LoadBalancerPort{
				{Protocol: corev1.ProtocolTCP, Port: 53, NodePort: 31053}, {Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053}}
		}},
		{name: "node port", change: func(s *cloud.LoadBalancerSpec) { s.Ports[0].NodePort = 31111 }},
		{name: "monitor", change: func(s *cloud.LoadBalancerSpec) {
			s.Settings[plan.AnnMonitor], s.Settings[plan.AnnMonitorDelay] = "true", "9"
		}},
		{name: "timeouts, limit, method", only: "amphora", change: func(s *cloud.LoadBalancerSpec) {
			s.Settings[plan.AnnTimeoutClient], s.Settings[plan.AnnConnectionLimit], s.Settings[plan.AnnMethod] = "60000", "100", config.MethodLeastConnections
		}},
		{name: "X-Forwarded-For", only: "amphora", change: func(s *cloud.LoadBalancerSpec) { s.Settings[plan.AnnForwardedFor] = "true" }},
		{name: "PROXY protocol", only: "amphora", change: func(s *cloud.LoadBalancerSpec) { s.Settings[plan.AnnProxyProtocol] = "v2" }},
		{name: "no members", change: func(s *cloud.LoadBalancerSpec) { s.Members = nil }},
	}
	for _, provider := range []string{"amphora", "ovn"} {
		for _, tt := range tests {
			if tt.only != "" && tt.only != provider {
				continue
			}
			t.Run(provider+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				x := newLBTest(t, 2, "lb-provider="+provider+"\n")
				t.Cleanup(func() { logCalls(t, x.sim) })
				x.ensure(x.spec)
				tt.change(x.spec)
				x.ensure(x.spec)
				x.wantConverged(x.spec, provider)
				x.budget("unchanged", 2, func() { x.ensure(x.spec) })

				back := x.service("web", cloud.Settings{plan.AnnLoadBalancerID: x.spec.Settings[plan.AnnLoadBalancerID], plan.AnnAddress: x.spec.Settings[plan.AnnAddress]})
				x.restart()
				x.ensure(back)
				x.wantConverged(back, provider)
				x.delete(back)
				x.wantNothing("after the deletion")
			})
		}
	}
}

func TestLoadBalancerDriftIsRepaired(t *testing.T) {
	x := newLBTest(t, 2, "create-monitor=true\n")
	x.ensure(x.spec)
	other := x.service("web", x.spec.Settings)
	other.Ports = other.Ports[:1]
	other.Members = nil
	other.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	drift := &lbTest{t: t, sim: x.sim, conf: x.conf, all: x.all}
	drift.restart()
	time.Sleep(1100 * time.Millisecond) // Octavia's timestamps have seconds
	drift.ensure(other)
	x.ensure(x.spec)
	x.wantConverged(x.spec, "amphora")
}
