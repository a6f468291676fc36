package octavia

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// rename starts a new process with another --cluster-name.
func (x *lbTest) rename(cluster string, specs ...*cloud.LoadBalancerSpec) {
	x.t.Helper()
	for _, s := range specs {
		s.Cluster.Name = cluster
	}
	x.restart()
}

// forget takes away what the Service has of its load balancer, as a restored backup does.
func forget(spec *cloud.LoadBalancerSpec) {
	delete(spec.Settings, plan.AnnLoadBalancerID)
	delete(spec.Settings, plan.AnnAddress)
	spec.CurrentIngress = nil
}

// TestClusterIsRenamed: a changed --cluster-name changes nothing in the cloud; what was made
// goes on to follow the Service, under the names that it has, and goes with it.
func TestClusterIsRenamed(t *testing.T) {
	for _, annotated := range []bool{true, false} {
		x := newLBTest(t, 3, "create-monitor=true\nmanage-security-groups=true\n")
		t.Cleanup(func() { logCalls(t, x.sim) })
		groups := x.groupsBefore()
		x.spec.Members = slices.Clone(x.all[:2])
		x.ensure(x.spec)
		id, address, before := x.spec.Settings[plan.AnnLoadBalancerID], x.spec.CurrentIngress[0].IP, x.objects()

		x.rename("other", x.spec)
		if !annotated {
			forget(x.spec)
		}
		x.sim.ResetRequests()
		if status := x.ensure(x.spec); status.Annotations[plan.AnnLoadBalancerID] != id || status.Ingress[0].IP != address {
			t.Errorf("status %+v, want load balancer %s at %s", status, id, address)
		}
		if n := x.sim.Mutations(); n != 0 {
			t.Errorf("a changed cluster name makes %d changing calls", n)
		}
		if after := x.objects(); !slices.Equal(before, after) {
			t.Errorf("objects %q became %q", before, after)
		}
		x.spec.Members = slices.Clone(x.all)
		if err := x.lbs.UpdateMembers(testContext(t), x.spec); err != nil {
			t.Fatal(err)
		}
		if got := x.tree(x.spec).Pools; len(got) != 2 || len(got[0].Members) != 3 || len(got[1].Members) != 3 {
			t.Errorf("pools %+v, want two of 3 members", got)
		}
		x.spec.Ports[0].Port = 8080
		x.spec.Ports = append(x.spec.Ports, cloud.LoadBalancerPort{Name: "new", Protocol: corev1.ProtocolTCP, Port: 9090, NodePort: 30090})
		x.ensure(x.spec)
		tree := x.tree(x.spec)
		if len(tree.Listeners) != 3 || len(tree.Pools) != 3 {
			t.Errorf("%d listeners and %d pools, want 3 of each", len(tree.Listeners), len(tree.Pools))
		}
		for _, l := range tree.Listeners {
			if !strings.HasSuffix(l.Name, occmName("web")) || !slices.Contains(l.Tags, occmName("web")) {
				t.Errorf("listener %q with tags %q does not go by its load balancer's name", l.Name, l.Tags)
			}
		}
		if n := len(x.ids()); n != 1 {
			t.Errorf("%d load balancers, want 1", n)
		}
		x.rename("third", x.spec)
		if !annotated {
			forget(x.spec)
		}
		x.delete(x.spec)
		x.wantNothing("after the deletion")
		for server, had := range groups {
			if got := x.groupsBefore()[server]; !slices.Equal(got, had) {
				t.Errorf("port %s has the groups %v, want %v", server, got, had)
			}
		}
	}
}

// TestRenamedClusterBecomesInternalAndExternal: the floating IP is the Service's, whatever
// name its description has.
func TestRenamedClusterBecomesInternalAndExternal(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	x.rename("other", x.spec)
	x.spec.Settings[plan.AnnInternal] = "true"
	x.ensure(x.spec)
	if n := len(x.sim.Snapshot().FloatingIPs); n != 0 {
		t.Errorf("%d floating IPs of an internal Service", n)
	}
	delete(x.spec.Settings, plan.AnnInternal)
	x.ensure(x.spec)
	x.delete(x.spec)
	x.wantNothing("after the deletion")
}

// TestRenamedClusterSharesLoadBalancers: a Service that shares one is still known there, by the
// tags that its listeners have, and one that comes later has today's name.
func TestRenamedClusterSharesLoadBalancers(t *testing.T) {
	for _, byOCCM := range []bool{false, true} {
		const conf = "max-shared-lb=3\n"
		x := newLBTest(t, 2, conf)
		t.Cleanup(func() { logCalls(t, x.sim) })
		var second *cloud.LoadBalancerSpec
		var id string
		if byOCCM {
			var specs []*cloud.LoadBalancerSpec
			x, specs = recorded(t, "sh-plain", 1, conf)
			second, id = specs[1], x.made(x.spec).ID
			x.ensure(x.spec)
			x.ensure(second)
		} else {
			second, id = x.sharing()
		}
		want := []string{plan.NamesOf(x.spec.LoadBalancerRef).LB, plan.NamesOf(second.LoadBalancerRef).LB, "kube_service_other_default_third", "isthmus-cluster=" + testCluster.UID}
		before := x.objects()
		x.rename("other", x.spec, second)
		x.sim.ResetRequests()
		x.ensure(x.spec)
		x.ensure(second)
		if n := x.sim.Mutations(); n != 0 {
			t.Errorf("a changed cluster name makes %d changing calls", n)
		}
		second.Ports[0].NodePort++
		second.Members = x.all[:1]
		x.ensure(second)
		if after := x.objects(); len(after) >= len(before) {
			t.Errorf("objects %q, want those before with fewer members: %q", after, before)
		}
		third := x.sharer("third", id, 9500)
		third.Cluster.Name = "other"
		x.ensure(third)
		if got := x.lb(id).Tags; !sameTags(got, want) {
			t.Errorf("tags %q, want %q", got, want)
		}
		x.rename("third-name", x.spec, second, third)
		for _, spec := range []*cloud.LoadBalancerSpec{second, x.spec, third} {
			x.delete(spec)
		}
		x.wantNothing("after all are deleted")
	}
}

// TestRenamedClusterMovesItsServices: nothing is left where they were before.
func TestRenamedClusterMovesItsServices(t *testing.T) {
	x := newLBTest(t, 1, "")
	t.Cleanup(func() { logCalls(t, x.sim) })
	x.ensure(x.spec)
	own := x.spec.Settings[plan.AnnLoadBalancerID]
	a, b := x.makeLB(loadbalancers.CreateOpts{Name: "users-a"}), x.makeLB(loadbalancers.CreateOpts{Name: "users-b"})
	x.makeFIP(a.VIPPortID, "the user's")
	x.makeFIP(b.VIPPortID, "the user's")
	x.rename("other", x.spec)
	x.spec.Settings[plan.AnnLoadBalancerID] = a.ID
	x.ensure(x.spec)
	if slices.Contains(x.ids(), own) {
		t.Error("the load balancer of before is left")
	}
	x.rename("third", x.spec)
	x.spec.Settings[plan.AnnLoadBalancerID] = b.ID
	x.ensure(x.spec)
	if tags := x.lb(a.ID).Tags; len(tags) != 0 {
		t.Errorf("tags %q are left on the load balancer of before", tags)
	}
	x.delete(x.spec)
	if s := x.sim.Snapshot(); len(s.Listeners)+len(s.Pools) != 0 || len(s.FloatingIPs) != 2 {
		t.Errorf("objects %q are left", x.objects())
	}
}

// TestCreationIsCutOffBeforeTheClusterIsRenamed: wherever it was.
func TestCreationIsCutOffBeforeTheClusterIsRenamed(t *testing.T) {
	crashEverywhere(t, "", func(*lbTest) {}, tryEnsure, func(x *lbTest) {
		x.rename("other", x.spec)
		x.lbs.now = func() time.Time { return time.Now().Add(lostCreation) }
		retry(x.t, func() error { return tryEnsure(x) })
		if n := len(x.ids()); n != 1 {
			x.t.Errorf("%d load balancers, want 1", n)
		}
		x.delete(x.spec)
		x.wantNothing("after the deletion")
	})
}

// TestTakeoverUnderAnotherClusterName: what the existing manager has made under the name of
// before is taken over by the Service's annotation and address, and keeps its names.
func TestTakeoverUnderAnotherClusterName(t *testing.T) {
	x, _ := recorded(t, "s-mixed", 0, "")
	lb := x.made(x.spec)
	x.rename("other", x.spec)
	x.takeOver(x.spec, lb, []string{lb.Name}, 1)
	x.delete(x.spec)
	x.wantNothing("after the deletion")
}

// TestOtherClustersServiceOfTheSameNameIsOnlyShared: its load balancer is not taken for one
// that this cluster made under another name.
func TestOtherClustersServiceOfTheSameNameIsOnlyShared(t *testing.T) {
	for _, byOCCM := range []bool{false, true} {
		x := newLBTest(t, 1, "")
		t.Cleanup(func() { logCalls(t, x.sim) })
		if byOCCM {
			x, _ = recorded(t, "s-plain", 1, "")
		}
		theirs := x.spec
		theirs.Cluster.UID = "ffffffff-0000-4000-8000-000000000002"
		if !byOCCM {
			x.ensure(theirs)
		}
		id, before := theirs.Settings[plan.AnnLoadBalancerID], x.objects()
		ours := x.sharer(theirs.Name, id, 9000)
		ours.Namespace, ours.Cluster.Name = theirs.Namespace, "ours"
		x.ensure(ours)
		for _, name := range []string{"ours", "renamed"} {
			x.rename(name, ours)
			x.ensure(ours)
			x.ensure(theirs)
		}
		if n := len(x.tree(theirs).Listeners); n != 3 {
			t.Errorf("%d listeners, want theirs and ours", n)
		}
		x.delete(ours)
		if after := x.objects(); !slices.Equal(before, after) {
			t.Errorf("objects %q became %q", before, after)
		}
	}
}

// TestAnnotationsAloneTakeNothingOfAnotherClusterName: any tenant may write both; it is the status
// that shows that the Service was served under the other name.
func TestAnnotationsAloneTakeNothingOfAnotherClusterName(t *testing.T) {
	x, _ := recorded(t, "s-plain", 0, "")
	theirs, lb, before := x.spec, x.made(x.spec), x.objects()
	for _, status := range [][]corev1.LoadBalancerIngress{nil, {{IP: "203.0.113.7"}}} {
		ours := x.sharer(theirs.Name, lb.ID, 9000)
		ours.Namespace, ours.Cluster.Name = theirs.Namespace, "other"
		ours.Settings[plan.AnnAddress], ours.CurrentIngress = theirs.Settings[plan.AnnAddress], status
		x.ensure(ours) // shares it
		if tags := x.lb(lb.ID).Tags; slices.ContainsFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, "isthmus-cluster=") }) {
			t.Errorf("tags %q: the load balancer is taken over", tags)
		}
		x.delete(ours)
		if after := x.objects(); !slices.Equal(before, after) {
			t.Errorf("objects %q became %q", before, after)
		}
	}
}
