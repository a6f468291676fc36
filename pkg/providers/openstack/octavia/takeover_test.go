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
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/play"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
)

// occmName is what OCCM calls the load balancer of a Service, and tags what is the Service's.
func occmName(service string) string { return "kube_service_kubernetes_default_" + service }

// recorded starts a cloud with three servers that holds what OCCM has left of a scenario of test/differential after a
// phase, by then with two Nodes. It returns the test of the first Service, and all of them. conf is added to the
// scenario's cloud.conf; before is called while the cloud is empty.
func recorded(t *testing.T, scenario string, phase int, conf string, before ...func(*lbTest)) (*lbTest, []*cloud.LoadBalancerSpec) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	group, recorded, err := recording.Of("../../../../test/differential/openstack/testdata", scenario)
	must(err)
	x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond, Jobboard: !group.World.Stuck}, 0, "")
	t.Cleanup(func() { logCalls(t, x.sim) })
	const servers = 3
	place, err := play.Make(t.Context(), group.World, x.sim, servers)
	must(err)
	for i := range servers {
		node := fmt.Sprintf("node%d", i)
		x.all = append(x.all, cloud.LoadBalancerMember{
			Node: cloud.InstanceRef{NodeName: node, ProviderID: "openstack:///" + place.Symbols.Value(node+".id")}, Addresses: []netip.Addr{netip.MustParseAddr(place.Symbols.Value(node))},
		})
	}
	for _, f := range before {
		f(x)
	}
	must(place.Cloud.Restore(t.Context(), place.Symbols, recorded.State(scenario, phase)))
	services, err := play.New(group, place, nil).Services(recorded, phase)
	must(err)
	text, err := place.Symbols.Expand(group.Conf)
	must(err)
	x.base, x.conf = func(string) string { return place.Global }, strings.TrimPrefix(text, "[LoadBalancer]\n")+conf
	x.restart()
	var specs []*cloud.LoadBalancerSpec
	for _, s := range services {
		spec, _, err := lb.Plan(s, nil, testCluster, &cloud.Provider{Annotations: plan.Annotations(&config.LoadBalancer{})})
		must(err)
		spec.UID, spec.Members = "uid-"+s.Name, slices.Clone(x.all[:2])
		specs = append(specs, spec)
	}
	x.spec = specs[0]
	return x, specs
}

// made is the Service's load balancer.
func (x *lbTest) made(spec *cloud.LoadBalancerSpec) *plan.LoadBalancer {
	x.t.Helper()
	return x.lb(spec.Settings[plan.AnnLoadBalancerID])
}

// published is what the Service has of its load balancer.
func published(spec *cloud.LoadBalancerSpec, id, address string) {
	spec.Settings[plan.AnnLoadBalancerID], spec.Settings[plan.AnnAddress] = id, address
	spec.CurrentIngress = []corev1.LoadBalancerIngress{{IP: address}}
}

// TestTakeoverThenDeletion: whatever OCCM has made, once taken over (see TestTakeover of test/differential) a second
// process reads it from a snapshot and changes nothing, and deleting the Service leaves nothing of it.
func TestTakeoverThenDeletion(t *testing.T) {
	for _, scenario := range []string{
		"s-mixed", "s-affinity", "s-local", "v-xff", "v-tls", "v-proxy", "v-internal", "c-monitor-mixed", "c-monitor-local", "ovn-plain", "ovn-internal", "n-stuck-mixed",
	} {
		t.Run(scenario, func(t *testing.T) {
			x, _ := recorded(t, scenario, 0, "")
			lb := x.made(x.spec)
			x.takeOver(x.spec, lb, []string{lb.Name}, 1)
			x.delete(x.spec)
			x.wantNothing("after the deletion")
		})
	}
}

// takeOver ensures the Service, twice with each of two processes, and checks what changes.
func (x *lbTest) takeOver(spec *cloud.LoadBalancerSpec, lb *plan.LoadBalancer, tags []string, changes int) {
	x.t.Helper()
	before, tree := x.objects(), x.treeOf(lb.ID)
	address := spec.Settings[plan.AnnAddress]
	var made []string
	for i := range 2 {
		x.restart()
		if i > 0 { // not in the second of the last change, so that a snapshot is believed
			x.lbs.now = func() time.Time { return time.Now().Add(time.Hour) }
		}
		for range 2 {
			status := x.ensure(spec)
			if status.Annotations[plan.AnnLoadBalancerID] != lb.ID || status.Annotations[plan.AnnAddress] != address || len(status.Warnings) > 0 {
				x.t.Errorf("status %+v, want load balancer %s with address %s and no warnings", status, lb.ID, address)
			}
		}
		for _, r := range x.sim.Requests() {
			if r.Service != "identity" && r.Method != http.MethodGet {
				made = append(made, r.Method+" "+r.Path)
			}
		}
	}
	if len(made) != changes {
		x.t.Errorf("taking over makes the changes %q, want %d", made, changes)
	}
	if changes > 0 {
		tags = append(slices.Clone(tags), "isthmus-cluster="+testCluster.UID)
	}
	if got := x.lb(lb.ID); !sameTags(got.Tags, tags) || got.Name != lb.Name || got.Description != lb.Description {
		x.t.Errorf("load balancer %+v, want tags %q and all else as it was", got, tags)
	}
	if after := x.objects(); !slices.Equal(before, after) {
		x.t.Errorf("objects %q became %q", before, after)
	}
	for i, l := range x.treeOf(lb.ID).Listeners {
		if !slices.Equal(l.Tags, tree.Listeners[i].Tags) {
			x.t.Errorf("tags of listener %s: %q became %q", l.Name, tree.Listeners[i].Tags, l.Tags)
		}
	}
}

func (x *lbTest) treeOf(id string) *plan.Tree {
	x.t.Helper()
	tree, err := x.op().readTree(testContext(x.t), id)
	if err != nil {
		x.t.Fatal(err)
	}
	return tree
}

// TestTakeoverShared: two Services on a load balancer that was made for the first, and one on one that a user has made.
func TestTakeoverShared(t *testing.T) {
	x, specs := recorded(t, "sh-plain", 1, "")
	first, second := specs[0], specs[1]
	lb := x.made(first)
	tags := []string{lb.Name, plan.NamesOf(second.LoadBalancerRef).LB}
	x.takeOver(second, lb, tags, 0)
	x.takeOver(first, lb, tags, 1)
	x.delete(first)
	if got := x.lb(lb.ID).Tags; !sameTags(got, []string{tags[1], "isthmus-cluster=" + testCluster.UID}) {
		t.Errorf("tags %q after the first Service has gone, want the second's and the owner's", got)
	}
	if s := x.sim.Snapshot(); len(s.Listeners) != 1 || len(s.Pools) != 1 {
		t.Errorf("objects %q, want the second Service's listener", x.objects())
	}
	x.delete(second)
	x.wantNothing("after both are deleted")
}

// TestTakeoverOfAUsersOwn: a load balancer that OCCM was pointed to gets no owner, and stays with its floating IP.
func TestTakeoverOfAUsersOwn(t *testing.T) {
	x, _ := recorded(t, "sh-own-fip", 0, "")
	lb := x.made(x.spec)
	x.takeOver(x.spec, lb, lb.Tags, 0)
	x.delete(x.spec)
	if s := x.sim.Snapshot(); len(s.LoadBalancers) != 1 || len(s.FloatingIPs) != 1 || len(s.Listeners)+len(s.Pools) != 0 || len(x.lb(lb.ID).Tags) != 0 {
		t.Errorf("objects %q are left, want the user's, without a tag", x.objects())
	}
}
