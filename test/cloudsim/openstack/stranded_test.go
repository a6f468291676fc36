package openstack_test

import (
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/forward/forwardtest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// TestStrandedChildren: what Zed's amphora driver leaves of a fully populated create, seen on a real one.
func TestStrandedChildren(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{OctaviaDelay: -1})
	c := octavia(t, sim)
	a, b, members := twoServers(sim)
	forwardtest.Backend(t, "a", a)
	forwardtest.Backend(t, "b", b)
	lb := createLB(t, c, full(sim, 8080, members...))
	statuses := func() (listener, pool, member string) {
		t.Helper()
		tree := must[*loadbalancers.StatusTree](t)(loadbalancers.GetStatuses(t.Context(), c, lb.ID).Extract())
		l := tree.Loadbalancer.Listeners[0]
		return l.ProvisioningStatus, l.Pools[0].ProvisioningStatus, l.Pools[0].Members[0].ProvisioningStatus
	}
	if l, p, m := statuses(); l != "PENDING_CREATE" || p != "PENDING_CREATE" || m != "PENDING_CREATE" {
		t.Errorf("after the create: listener %s, pool %s, member %s", l, p, m)
	}
	if out, err := forwardtest.Ask(lb.VipAddress+":8080", ""); err == nil && out != "" {
		t.Errorf("the load balancer serves: %q", out)
	}
	pool := lb.Pools[0].ID
	if err := pools.BatchUpdateMembers(t.Context(), c, pool, []pools.BatchUpdateMemberOpts{}).ExtractErr(); !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		t.Errorf("members of a stranded pool: %v, want 409", err)
	}
	must[*loadbalancers.LoadBalancer](t)(loadbalancers.Update(t.Context(), c, lb.ID, loadbalancers.UpdateOpts{Name: new("lb")}).Extract())
	settled(t, c, lb.ID)
	if l, p, _ := statuses(); l != "PENDING_CREATE" || p != "PENDING_CREATE" {
		t.Errorf("after an update of the load balancer: listener %s, pool %s", l, p)
	}
	if _, err := forwardtest.Ask(lb.VipAddress+":8080", ""); err != nil {
		t.Errorf("the load balancer does not serve after an update: %v", err)
	}
	must[*pools.Pool](t)(pools.Update(t.Context(), c, pool, pools.UpdateOpts{Name: new("p0")}).Extract())
	settled(t, c, lb.ID)
	if l, p, m := statuses(); l != "ACTIVE" || p != "ACTIVE" || m != "PENDING_CREATE" {
		t.Errorf("after an update of the pool: listener %s, pool %s, member %s", l, p, m)
	}
	if err := pools.BatchUpdateMembers(t.Context(), c, pool, []pools.BatchUpdateMemberOpts{}).ExtractErr(); err != nil {
		t.Error(err)
	}
}
