package octavia

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/providerid"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

const managed = "manage-security-groups=true\n"

// neutron sends one request to Neutron, as an operator would.
func (x *lbTest) neutron(method, path string, body any) map[string]any {
	x.t.Helper()
	ctx := testContext(x.t)
	sc, err := x.lbs.c.Service(ctx, api.Network)
	if err != nil {
		x.t.Fatal(err)
	}
	var out map[string]any
	url := sc.ServiceURL(path)
	switch method {
	case "GET":
		_, err = sc.Get(ctx, url, &out, nil)
	case "PUT":
		_, err = sc.Put(ctx, url, body, &out, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK, http.StatusCreated, http.StatusNoContent}})
	case "POST":
		_, err = sc.Post(ctx, url, body, &out, nil)
	case "DELETE":
		_, err = sc.Delete(ctx, url, nil)
	}
	if err != nil {
		x.t.Fatalf("%s %s: %v", method, path, err)
	}
	return out
}

// ports reads the ports of the servers, by server.
func (x *lbTest) ports() map[string]*neutron.Port {
	x.t.Helper()
	ctx := testContext(x.t)
	all, err := api.List[*neutron.Port](ctx, x.lbs.c.On(ctx, api.Network, "list ports"), "ports", nil)
	if err != nil {
		x.t.Fatal(err)
	}
	out := map[string]*neutron.Port{}
	for _, p := range all {
		if strings.HasPrefix(p.DeviceOwner, "compute:") {
			out[p.DeviceID] = p
		}
	}
	return out
}

// portOf is the port of the n-th server.
func (x *lbTest) portOf(n int) *neutron.Port {
	id, _, _ := providerid.Parse(x.all[n].Node.ProviderID)
	return x.ports()[id]
}

// group reads the Service's security group; nil for none.
func (x *lbTest) group(spec *cloud.LoadBalancerSpec) *neutron.SecurityGroup {
	x.t.Helper()
	ctx := testContext(x.t)
	o, err := x.lbs.operation(ctx, spec.LoadBalancerRef)
	if err != nil {
		x.t.Fatal(err)
	}
	all, err := o.findGroups(ctx)
	if err != nil || len(all) > 1 {
		x.t.Fatalf("groups %v, %v", all, err)
	}
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

func ruleTexts(g *neutron.SecurityGroup) []string {
	var out []string
	for _, r := range g.Rules {
		out = append(out, fmt.Sprintf("%s %s %s %d %s", r.Direction, r.EtherType, r.Protocol, r.Min, r.Prefix))
	}
	slices.Sort(out)
	return out
}

// wantGroups fails unless exactly the spec's members have its group, each beside those it had.
func (x *lbTest) wantGroups(spec *cloud.LoadBalancerSpec, before map[string][]string) {
	x.t.Helper()
	g, got, want := x.group(spec), map[string][]string{}, map[string][]string{}
	for server, p := range x.ports() {
		got[server] = slices.Sorted(slices.Values(p.Groups))
		want[server] = slices.Clone(before[server])
	}
	for _, m := range spec.Members {
		id, _, _ := providerid.Parse(m.Node.ProviderID)
		want[id] = append(want[id], g.ID)
	}
	for _, list := range want {
		slices.Sort(list)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		x.t.Errorf("groups of the servers' ports (-want +got):\n%s", diff)
	}
}

func (x *lbTest) groupsBefore() map[string][]string {
	out := map[string][]string{}
	for server, p := range x.ports() {
		out[server] = p.Groups
	}
	return out
}

func TestManagedSecurityGroups(t *testing.T) {
	for _, provider := range []string{"amphora", "ovn"} {
		t.Run(provider, func(t *testing.T) {
			x := newLBTest(t, 5, "lb-provider="+provider+"\n"+managed)
			t.Cleanup(func() { logCalls(t, x.sim) })
			before := x.groupsBefore()
			x.spec.Members = slices.Clone(x.all[:3])
			x.ensure(x.spec)
			x.wantGroups(x.spec, before)
			from := fmt.Sprintf("127.%d.0.0/18", x.sim.Net())
			if provider == "ovn" {
				from = "0.0.0.0/0"
			}
			if diff := cmp.Diff([]string{"ingress IPv4 tcp 30080 " + from, "ingress IPv4 udp 30053 " + from}, ruleTexts(x.group(x.spec))); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			x.budget("unchanged", 2, func() { x.ensure(x.spec) })

			x.spec.Members = slices.Clone(x.all[1:])
			const ports, listing, writes = 2, 1, 3 // two Nodes have come, one has gone
			x.budget("node-set change", 1+ports+listing+writes, func() {
				if err := x.lbs.UpdateMembers(testContext(t), x.spec); err != nil {
					t.Fatal(err)
				}
			})
			x.wantGroups(x.spec, before)
			x.budget("unchanged after a node-set change", 2, func() { x.ensure(x.spec) })

			x.spec.HealthCheck = &cloud.HealthCheck{Port: 31000, Path: "/healthz"}
			x.spec.Ports[0].NodePort = 30081
			x.ensure(x.spec)
			inside := fmt.Sprintf("127.%d.0.0/18", x.sim.Net())
			if diff := cmp.Diff([]string{"ingress IPv4 tcp 30081 " + from, "ingress IPv4 tcp 31000 " + inside, "ingress IPv4 udp 30053 " + from}, ruleTexts(x.group(x.spec))); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			x.restart()
			x.sim.ResetRequests()
			x.ensure(x.spec)
			if n := x.sim.Mutations(); n > 0 {
				t.Errorf("an unchanged Service after a restart makes %d changes", n)
			}
			x.delete(x.spec)
			x.wantNothing("after the deletion")
			if diff := cmp.Diff(before, x.groupsBefore()); diff != "" {
				t.Errorf("groups of the ports after the deletion (-want +got):\n%s", diff)
			}
		})
	}
}

// TestComplaintSecurityGroupsAreNeverWiped: other controllers replaced a port's list of
// groups and cut whole clusters off. Here somebody else changes the lists while we do.
func TestComplaintSecurityGroupsAreNeverWiped(t *testing.T) {
	x := newLBTest(t, 4, managed)
	t.Cleanup(func() { logCalls(t, x.sim) })
	foreign := x.neutron("POST", "security-groups", map[string]any{"security_group": map[string]any{"name": "foreign"}})["security_group"].(map[string]any)["id"].(string)
	var busy atomic.Bool
	remove := x.sim.OnMutation(func(m ossim.Mutation) {
		if m.After || m.Method != http.MethodPut || !strings.HasPrefix(m.Path, "/v2.0/ports/") && !strings.HasPrefix(m.Path, "/ports/") {
			return
		}
		if !busy.CompareAndSwap(false, true) { // once: our own request below comes here as well
			return
		}
		id := m.Path[strings.LastIndex(m.Path, "/")+1:]
		port := x.neutron("GET", "ports/"+id, nil)["port"].(map[string]any)
		groups := append(port["security_groups"].([]any), foreign)
		x.neutron("PUT", "ports/"+id, map[string]any{"port": map[string]any{"security_groups": groups}})
	})
	before := x.groupsBefore()
	x.ensure(x.spec)
	remove()
	if !busy.Load() {
		t.Fatal("nobody got in between: the test checks nothing")
	}
	found := 0
	for server, p := range x.ports() {
		if slices.Contains(p.Groups, foreign) {
			before[server] = append(before[server], foreign)
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d ports have the foreign group, want the one that got it meanwhile", found)
	}
	x.wantGroups(x.spec, before)
}

// TestComplaintSecurityGroupsCostNoPerNodeCall: other controllers list the ports of each Node,
// for each load balancer, at each change.
func TestComplaintSecurityGroupsCostNoPerNodeCall(t *testing.T) {
	cost := func(nodes int) int {
		x := newLBTest(t, nodes, managed)
		x.ensure(x.spec)
		x.restart()
		x.sim.ResetRequests()
		x.ensure(x.spec)
		return calls(x.sim)
	}
	if few, many := cost(3), cost(120); few != many {
		t.Errorf("looking after the groups of 3 Nodes costs %d calls, of 120 Nodes %d", few, many)
	}
}

// TestComplaintSecurityGroupLeaksWhenLBIsGone: the group goes although the load balancer
// has gone before.
func TestComplaintSecurityGroupLeaksWhenLBIsGone(t *testing.T) {
	x := newLBTest(t, 2, managed)
	x.ensure(x.spec)
	x.sim.DeleteLoadBalancer(x.spec.Settings[plan.AnnLoadBalancerID])
	x.restart()
	x.delete(x.spec)
	x.wantNothing("after the deletion")
}

func TestSecurityGroupsOfOthersStay(t *testing.T) {
	x := newLBTest(t, 2, managed)
	other := x.service("web", nil) // the same names in another cluster of the same name
	other.UID = "uid-of-the-other"
	group := x.neutron("POST", "security-groups", map[string]any{"security_group": map[string]any{"name": groupName(other.LoadBalancerRef)}})["security_group"].(map[string]any)["id"].(string)
	x.neutron("PUT", "ports/"+x.portOf(0).ID, map[string]any{"port": map[string]any{"security_groups": []string{group}}})
	x.ensure(x.spec)
	x.delete(x.spec)
	if got := x.portOf(0).Groups; !slices.Equal(got, []string{group}) {
		t.Errorf("the port has %v, want the other cluster's group only", got)
	}
	if diff := cmp.Diff([]string{"group " + groupName(other.LoadBalancerRef)}, x.objects()); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// TestSecurityGroupThatSomebodyDeletedIsMadeAnew: the first operation that needs it may fail, the second one does not.
func TestSecurityGroupThatSomebodyDeletedIsMadeAnew(t *testing.T) {
	x := newLBTest(t, 3, managed)
	before := x.groupsBefore()
	x.spec.Members = x.all[:2]
	x.ensure(x.spec)
	id := x.group(x.spec).ID
	for n := range 2 {
		x.neutron("PUT", "ports/"+x.portOf(n).ID, map[string]any{"port": map[string]any{"security_groups": before[x.portOf(n).DeviceID]}})
	}
	x.neutron("DELETE", "security-groups/"+id, nil)
	x.spec.Members = x.all
	if _, err := x.lbs.Ensure(testContext(t), x.spec); cloud.KindOf(err) != cloud.KindInvalid {
		t.Fatalf("Ensure: %v, want KindInvalid of the group that is gone", err)
	}
	x.ensure(x.spec)
	x.wantGroups(x.spec, before)
}

func TestPortsWithoutPortSecurityGetNoGroup(t *testing.T) {
	x := newLBTest(t, 2, managed)
	x.neutron("PUT", "ports/"+x.portOf(0).ID, map[string]any{"port": map[string]any{"security_groups": []string{}, "port_security_enabled": false}})
	x.ensure(x.spec)
	if got := x.portOf(0).Groups; len(got) > 0 {
		t.Errorf("the port without port security got %v", got)
	}
	if got := x.portOf(1).Groups; !slices.Contains(got, x.group(x.spec).ID) {
		t.Errorf("the other port has %v", got)
	}
	x.budget("unchanged", 2, func() { x.ensure(x.spec) })
}

// TestNodeWithoutPortIsWarnedOfAsLongAsItHasNone: also after other Nodes have come, and what is unchanged costs
// nothing.
func TestNodeWithoutPortIsWarnedOfAsLongAsItHasNone(t *testing.T) {
	x := newLBTest(t, 3, managed)
	x.spec.Members = slices.Clone(x.all[:2])
	x.spec.Members[1].Node.ProviderID = "openstack:///" + missingID
	warned := func(when string) {
		t.Helper()
		if w := x.ensure(x.spec).Warnings; !slices.ContainsFunc(w, func(w string) bool {
			return strings.HasPrefix(w, "1 nodes have no Neutron port") && strings.Contains(w, x.spec.Members[1].Node.NodeName)
		}) {
			t.Errorf("%s: %q", when, w)
		}
	}
	warned("at first")
	x.budget("unchanged", 2, func() { warned("unchanged") })
	x.spec.Members = append(x.spec.Members, x.all[2])
	warned("when a Node has come")
	x.budget("unchanged", 2, func() { warned("unchanged after that") })
}

// TestTakeoverOfSecurityGroups takes over a group as other controllers leave it, on more
// ports of a member than needed, without any change.
func TestTakeoverOfSecurityGroups(t *testing.T) {
	x := newLBTest(t, 2, managed)
	subnet := fmt.Sprintf("127.%d.0.0/18", x.sim.Net())
	group := x.neutron("POST", "security-groups", map[string]any{"security_group": map[string]any{"name": "lb-sg-uid-web-default-web",
		"description": "Security Group for default/web Service LoadBalancer in cluster kubernetes"}})["security_group"].(map[string]any)
	for _, r := range group["security_group_rules"].([]any) {
		x.neutron("DELETE", "security-group-rules/"+r.(map[string]any)["id"].(string), nil)
	}
	for _, p := range x.spec.Ports {
		x.neutron("POST", "security-group-rules", map[string]any{"security_group_rule": map[string]any{"security_group_id": group["id"], "direction": "ingress",
			"ethertype": "IPv4", "protocol": strings.ToLower(string(p.Protocol)), "port_range_min": p.NodePort, "port_range_max": p.NodePort, "remote_ip_prefix": subnet}})
	}
	for i := range x.all {
		p := x.portOf(i)
		x.neutron("PUT", "ports/"+p.ID, map[string]any{"port": map[string]any{"security_groups": append(p.Groups, group["id"].(string))}})
	}
	second := x.neutron("POST", "ports", map[string]any{"port": map[string]any{"network_id": x.sim.Defaults().NetworkID, "device_id": x.portOf(0).DeviceID,
		"device_owner": "compute:az1", "security_groups": []any{group["id"]}}})["port"].(map[string]any)["id"].(string)
	x.sim.ResetRequests()
	x.ensure(x.spec)
	for _, r := range x.sim.Requests() {
		if r.Service == "network" && r.Method != http.MethodGet && !strings.Contains(r.Path, "floatingips") {
			t.Errorf("the takeover makes the call %s %s", r.Method, r.Path)
		}
	}
	x.delete(x.spec)
	x.wantNothing("after the deletion")
	x.neutron("DELETE", "ports/"+second, nil)
}

func TestSecurityGroupCrashes(t *testing.T) {
	crashEverywhere(t, managed, func(*lbTest) {}, func(x *lbTest) error {
		_, err := x.lbs.Ensure(testContext(x.t), x.spec)
		return err
	}, func(x *lbTest) {
		before := map[string][]string{}
		for server := range x.ports() {
			before[server] = []string{x.sim.Defaults().SecurityGroupID}
		}
		retry(x.t, func() error {
			status, err := x.lbs.Ensure(testContext(x.t), x.spec)
			if err == nil {
				publish(x.spec, status)
			}
			return err
		})
		x.spec.Members = x.spec.Members[1:]
		x.ensure(x.spec)
		x.wantGroups(x.spec, before)
		retry(x.t, func() error { return x.lbs.Delete(testContext(x.t), x.spec) })
		x.wantNothing("after the deletion")
	})
}

// TestSecurityGroupsTurnedOff: groups go when they are not wanted any more, also those of
// Services that are deleted then.
func TestSecurityGroupsTurnedOff(t *testing.T) {
	x := newLBTest(t, 2, managed)
	before := x.groupsBefore()
	second, third := x.service("second", nil), x.service("third", nil)
	for _, s := range []*cloud.LoadBalancerSpec{x.spec, second, third} {
		x.ensure(s)
	}
	x.conf = ""
	x.restart()
	x.delete(third)
	x.ensure(x.spec)
	if err := x.lbs.UpdateMembers(testContext(t), second); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, x.groupsBefore()); diff != "" {
		t.Errorf("groups of the ports (-want +got):\n%s", diff)
	}
	for _, s := range []*cloud.LoadBalancerSpec{x.spec, second, third} {
		if g := x.group(s); g != nil {
			t.Errorf("the group %s is still there", g.Name)
		}
	}
	x.budget("unchanged", 2, func() { x.ensure(x.spec) })
	x.budget("delete", 4, func() { x.delete(x.spec) })
}

func TestGroupRules(t *testing.T) {
	prefixes := func(list ...string) (out []netip.Prefix) {
		for _, s := range list {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	tests := []struct {
		name    string
		change  func(*cloud.LoadBalancerSpec)
		inside  []netip.Prefix
		clients []netip.Prefix
		want    []string
	}{
		{name: "from the load balancer's networks, both families", inside: prefixes("10.0.0.0/24", "fd00::/64"),
			want: []string{"IPv4|tcp|30080|30080|10.0.0.0/24", "IPv4|udp|30081|30081|10.0.0.0/24", "IPv6|tcp|30080|30080|fd00::/64", "IPv6|udp|30081|30081|fd00::/64"}},
		{name: "from clients", inside: prefixes("10.0.0.0/24"), clients: prefixes("192.0.2.0/24"),
			want: []string{"IPv4|tcp|30080|30080|192.0.2.0/24", "IPv4|udp|30081|30081|192.0.2.0/24"}},
		{name: "from clients, and health checks", inside: prefixes("10.0.0.0/24"), clients: prefixes("192.0.2.0/24"),
			change: func(s *cloud.LoadBalancerSpec) {
				s.Settings[plan.AnnMonitor], s.Ports = "true", s.Ports[:1]
			},
			want: []string{"IPv4|tcp|30080|30080|10.0.0.0/24", "IPv4|tcp|30080|30080|192.0.2.0/24"}},
		{name: "from everyone, which includes health checks", inside: prefixes("10.0.0.0/24"), clients: prefixes("0.0.0.0/0"),
			change: func(s *cloud.LoadBalancerSpec) {
				s.Settings[plan.AnnMonitor], s.Ports = "true", s.Ports[:1]
			},
			want: []string{"IPv4|tcp|30080|30080|0.0.0.0/0"}},
		{name: "one node port of two ports", inside: prefixes("10.0.0.0/24"),
			change: func(s *cloud.LoadBalancerSpec) {
				s.Ports = []cloud.LoadBalancerPort{{Protocol: corev1.ProtocolSCTP, Port: 1, NodePort: 30000}, {Protocol: corev1.ProtocolSCTP, Port: 2, NodePort: 30000}, {Protocol: corev1.ProtocolTCP, Port: 3}}
			},
			want: []string{"IPv4|sctp|30000|30000|10.0.0.0/24"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, err := plan.Resolve(specOf(tt.change), &config.Config{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range groupRules(w, tt.inside, tt.clients) {
				got = append(got, strings.TrimSuffix(strings.TrimPrefix(r.Key(), "ingress|"), "|"))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func specOf(change func(*cloud.LoadBalancerSpec)) *cloud.LoadBalancerSpec {
	s := &cloud.LoadBalancerSpec{
		LoadBalancerRef: cloud.LoadBalancerRef{Cluster: testCluster, Namespace: "ns", Name: "s", Settings: cloud.Settings{}},
		Ports: []cloud.LoadBalancerPort{
			{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}, {Protocol: corev1.ProtocolUDP, Port: 80, NodePort: 30081}},
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
	}
	if change != nil {
		change(s)
	}
	return s
}

// TestManyServicesWriteEachPortOnce: each Service alone would write each Node's port.
func TestManyServicesWriteEachPortOnce(t *testing.T) {
	const nodes, services = 8, 25
	x := newLBTest(t, nodes, managed)
	before := x.groupsBefore()
	var specs []*cloud.LoadBalancerSpec
	for i := range services {
		specs = append(specs, x.sharer(fmt.Sprint("s", i), "", 80))
	}
	gather := func() { // until all have come, and keep nobody waiting but a few
		x.restart()
		groups := neutron.NewSecurityGroups(x.lbs.c, joint.Options{Tenants: services, Quiet: time.Hour, Most: time.Hour, Wait: time.Hour, Waiters: portWaiters, Retry: time.Millisecond})
		x.lbs.groups = func() *neutron.SecurityGroups { return groups }
	}
	all := func(what string, writes int, members []cloud.LoadBalancerMember, op func(context.Context, *cloud.LoadBalancerSpec) error) {
		t.Helper()
		x.sim.ResetRequests()
		var wg sync.WaitGroup
		for _, s := range specs {
			s.Members = slices.Clone(members)
			wg.Go(func() {
				for err := op(testContext(t), s); err != nil; err = op(testContext(t), s) {
					if cloud.KindOf(err) != cloud.KindRetryAfter {
						t.Error(err)
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		wg.Wait()
		n := 0
		for _, r := range x.sim.Requests() {
			if r.Method == http.MethodPut && strings.HasPrefix(r.Path, "/ports/") {
				n++
			}
		}
		if n != writes {
			t.Errorf("%s: %d writes of ports, want %d", what, n, writes)
		}
	}
	ensure := func(ctx context.Context, s *cloud.LoadBalancerSpec) error {
		status, err := x.lbs.Ensure(ctx, s)
		if err == nil {
			publish(s, status)
		}
		return err
	}
	gather()
	all("all come", nodes-1, x.all[1:], ensure)
	all("a Node joins", 1, x.all, x.lbs.UpdateMembers)
	all("nothing changes", 0, x.all, ensure)
	all("a Node leaves", 1, x.all[1:], x.lbs.UpdateMembers)
	if got := x.portOf(1).Groups; len(got) != services+1 {
		t.Errorf("a Node's port has %d groups, want those of %d Services and its own", len(got), services)
	}
	gather()
	all("all come after a restart", 0, x.all[1:], ensure)
	all("all go", nodes-1, nil, x.lbs.Delete)
	if diff := cmp.Diff(before, x.groupsBefore()); diff != "" {
		t.Errorf("groups of the ports (-want +got):\n%s", diff)
	}
	x.wantNothing("after the deletion")
}
