package octavia

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// TestUntaggedLoadBalancerIsNotSeizedWithoutEvidence: the name alone may be another cluster's.
// Neither Ensure nor the deletion of the Service that was refused touches it.
func TestUntaggedLoadBalancerIsNotSeizedWithoutEvidence(t *testing.T) {
	x, _ := recorded(t, "s-plain", 0, "")
	lb, ours := x.made(x.spec), x.spec
	for _, published := range []string{"", "203.0.113.7"} {
		forget(ours)
		if published != "" {
			ours.Settings[plan.AnnAddress] = published
			ours.CurrentIngress = []corev1.LoadBalancerIngress{{IP: published}}
		}
		x.wantRefused(ours, "set the annotation "+plan.AnnLoadBalancerID+": "+lb.ID)
		if err := x.lbs.UpdateMembers(testContext(t), ours); cloud.KindOf(err) != cloud.KindConflict {
			t.Errorf("UpdateMembers: %v, want KindConflict", err)
		}
		x.sim.ResetRequests()
		x.delete(ours)
		if n := x.sim.Mutations(); n != 0 {
			t.Errorf("the deletion of a refused Service makes %d changing calls", n)
		}
	}
}

// TestUntaggedLoadBalancerIsTakenOverByEvidence: by the annotation, or by an address that the
// Service has published, which a deletion believes as well.
func TestUntaggedLoadBalancerIsTakenOverByEvidence(t *testing.T) {
	for _, scenario := range []string{"s-plain", "v-internal"} {
		for name, evidence := range map[string]func(*cloud.LoadBalancerSpec){
			"annotation": func(s *cloud.LoadBalancerSpec) { delete(s.Settings, plan.AnnAddress); s.CurrentIngress = nil },
			"address":    func(s *cloud.LoadBalancerSpec) { delete(s.Settings, plan.AnnLoadBalancerID); s.CurrentIngress = nil },
			"status": func(s *cloud.LoadBalancerSpec) {
				delete(s.Settings, plan.AnnLoadBalancerID)
				delete(s.Settings, plan.AnnAddress)
			},
		} {
			for _, ensure := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s ensure=%v", scenario, name, ensure), func(t *testing.T) {
					x, _ := recorded(t, scenario, 0, "", func(x *lbTest) { // one of the same name beside it makes no difference
						name := "kube_service_kubernetes_" + scenario + "_a"
						x.makeLB(loadbalancers.CreateOpts{Name: name, Tags: []string{name}})
					})
					lb := x.made(x.spec)
					address := x.spec.Settings[plan.AnnAddress]
					evidence(x.spec)
					if ensure {
						status := x.ensure(x.spec)
						if status.Annotations[plan.AnnLoadBalancerID] != lb.ID || status.Annotations[plan.AnnAddress] != address {
							t.Errorf("status %+v, want load balancer %s at %s", status, lb.ID, address)
						}
					}
					x.delete(x.spec)
					if got := x.ids(); slices.Contains(got, lb.ID) || len(got) != 1 || len(x.sim.Snapshot().FloatingIPs) != 0 {
						t.Errorf("objects %q are left, want the other load balancer", x.objects())
					}
				})
			}
		}
	}
}

// TestOwnCreationNeedsNoEvidence: it carries the cluster's tag before anything is published.
func TestOwnCreationNeedsNoEvidence(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	id := x.spec.Settings[plan.AnnLoadBalancerID]
	forget(x.spec)
	x.restart()
	if got := x.ensure(x.spec).Annotations[plan.AnnLoadBalancerID]; got != id {
		t.Errorf("load balancer %s, want %s", got, id)
	}
	forget(x.spec)
	x.delete(x.spec)
	x.wantNothing("after the deletion")
}

// TestLegacyNamedLoadBalancerIsTheServices: the name holds its UID.
func TestLegacyNamedLoadBalancerIsTheServices(t *testing.T) {
	for _, annotated := range []bool{true, false} {
		x := newLBTest(t, 2, "")
		t.Cleanup(func() { logCalls(t, x.sim) })
		x.spec.UID = "11111111-2222-3333-4444-555555555555"
		x.spec.Settings[plan.AnnInternal] = "true"
		x.spec.Ports = x.spec.Ports[:1]
		const name = "a1111111122223333444455555555555"
		lb := x.makeLB(loadbalancers.CreateOpts{Name: name, Listeners: []listeners.CreateOpts{{Name: "listener_" + name + "_0", Protocol: "TCP", ProtocolPort: 80,
			DefaultPool: &pools.CreateOpts{Name: "pool_" + name + "_0", Protocol: "TCP", LBMethod: "ROUND_ROBIN"}}}})
		published(x.spec, lb.ID, lb.VIPAddress)
		if !annotated {
			delete(x.spec.Settings, plan.AnnLoadBalancerID)
		}
		for i := range 2 {
			if status := x.ensure(x.spec); status.Annotations[plan.AnnLoadBalancerID] != lb.ID {
				t.Errorf("status %+v, want load balancer %s", status, lb.ID)
			}
			if i == 0 {
				x.rename("other", x.spec)
			}
		}
		if tree := x.tree(x.spec); len(tree.Listeners) != 1 || len(tree.Pools) != 1 || len(tree.Pools[0].Members) != 2 {
			t.Errorf("objects %q, want one listener with one pool of 2 members", x.objects())
		}
		if got := x.lb(lb.ID).Tags; !sameTags(got, []string{occmName("web"), "isthmus-cluster=" + testCluster.UID}) {
			t.Errorf("tags %q", got)
		}
		x.spec.Ports[0].Port = 8080
		x.ensure(x.spec)
		x.delete(x.spec)
		x.wantNothing("after the deletion")
	}
}

// TestNamesOfClustersAndServices: which Service a name is of does not depend on the cluster's.
func TestNamesOfClustersAndServices(t *testing.T) {
	ref := cloud.LoadBalancerRef{Namespace: "ns", Name: "web", Cluster: testCluster}
	long := ref
	long.Cluster.Name = strings.Repeat("long_", 60)
	for _, tt := range []struct {
		lb      plan.LoadBalancer
		cluster string
		want    bool
	}{
		{plan.LoadBalancer{Name: "kube_service_kubernetes_ns_web"}, "kubernetes", true},
		{plan.LoadBalancer{Name: "kube_service_my_cluster_ns_web"}, "my_cluster", true},
		{plan.LoadBalancer{Name: "kube_service_a_ns_ns_web"}, "a_ns", true},
		{plan.LoadBalancer{Name: "kube_service_c_ns_web2"}, "", false},
		{plan.LoadBalancer{Name: "kube_service_c_other-ns_web"}, "", false},
		{plan.LoadBalancer{Name: "kube_service_ns_web"}, "", false},
		{plan.LoadBalancer{Name: "mine_c_ns_web"}, "", false},
		{plan.LoadBalancer{Name: plan.NamesOf(long).LB, Description: plan.NamesOf(long).Description}, long.Cluster.Name, true},
		{plan.LoadBalancer{Name: plan.NamesOf(long).LB, Description: "somebody's"}, "", false},
	} {
		got, ok := plan.NamesOf(ref).MadeFor(&tt.lb)
		if ok != tt.want || ok && (got.LB != tt.lb.Name || !strings.HasPrefix(tt.cluster, got.Cluster)) {
			t.Errorf("%.60s: %t, names %+v", tt.lb.Name, ok, got)
		}
		if ok && !got.IsFIP(got.FIPDescription) {
			t.Errorf("%.60s: the description %q is not known", tt.lb.Name, got.FIPDescription)
		}
	}
}
