package octavia

import (
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// A Service that came out of a backup has published addresses of load balancers that are another cluster's, or of
// one of its name that nobody says is ours: it moves, and they stay as they are.
func TestPublishedAddressesOfOthersStay(t *testing.T) {
	x := newLBTest(t, 1, "")
	t.Cleanup(func() { logCalls(t, x.sim) })
	names := plan.NamesOf(x.spec.LoadBalancerRef)
	theirs := x.makeLB(loadbalancers.CreateOpts{Name: "theirs", Tags: []string{names.LB, "isthmus-cluster=u2"}})
	namesake := x.makeLB(loadbalancers.CreateOpts{Name: names.LB, Tags: []string{names.LB}})
	mine := x.makeLB(loadbalancers.CreateOpts{Name: "users"})
	x.makeFIP(mine.VIPPortID, "the user's")
	x.spec.Settings[plan.AnnLoadBalancerID] = mine.ID
	x.spec.CurrentIngress = []corev1.LoadBalancerIngress{{IP: theirs.VIPAddress}, {IP: namesake.VIPAddress}}
	x.ensure(x.spec)
	for _, lb := range []*plan.LoadBalancer{theirs, namesake} {
		if !slices.Contains(x.ids(), lb.ID) {
			t.Errorf("%s, with tags %q, is deleted", lb.Name, lb.Tags)
			continue
		}
		if got := x.lb(lb.ID).Tags; !slices.Equal(got, lb.Tags) {
			t.Errorf("%s has tags %q, and had %q", lb.Name, got, lb.Tags)
		}
	}
	if !slices.Contains(x.lb(mine.ID).Tags, names.LB) {
		t.Error("the Service is not on the load balancer that it names")
	}
}
