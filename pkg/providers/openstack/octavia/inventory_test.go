package octavia

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

func (x *lbTest) owned() []cloud.Owned {
	x.t.Helper()
	all, err := x.lbs.Owned(testContext(x.t), testCluster)
	if err != nil {
		x.t.Fatal(err)
	}
	return all
}

// TestOwnedIsWhatCarriesTheClustersTag: not what has a similar name, no tag, or another cluster's.
func TestOwnedIsWhatCarriesTheClustersTag(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	names := plan.NamesOf(x.spec.LoadBalancerRef)
	renamed := x.makeLB(loadbalancers.CreateOpts{Name: "kube_service_before_team_api", Tags: []string{names.OwnerTag}})
	legacy := x.makeLB(loadbalancers.CreateOpts{Name: "a0123456789abcdef0123456789abcdef", Tags: []string{names.OwnerTag, "kube_service_kubernetes_team_old"}})
	shared := x.makeLB(loadbalancers.CreateOpts{Name: "kube_service_kubernetes_team_gone", Tags: []string{names.OwnerTag, "kube_service_kubernetes_team_stays"}})
	x.makeLB(loadbalancers.CreateOpts{Name: names.LB, Tags: []string{"isthmus-cluster=another"}})
	x.makeLB(loadbalancers.CreateOpts{Name: names.LB, Tags: []string{names.OwnerTag + "2"}})
	x.makeLB(loadbalancers.CreateOpts{Name: names.LB})
	x.makeLB(loadbalancers.CreateOpts{Name: "users"})
	want := map[string]string{x.spec.Settings[plan.AnnLoadBalancerID]: "default/web", renamed.ID: "team/api", legacy.ID: "team/old", shared.ID: "team/gone team/stays"}
	all := x.owned()
	for _, o := range all {
		if got := strings.Join(append([]string{o.Mark.Service}, o.Users...), " "); got != want[o.ID] {
			t.Errorf("%s %s is of %q, want %q", o.ID, o.Name, got, want[o.ID])
		}
		if o.Created.IsZero() || o.State != "ACTIVE" || len(o.Addresses) == 0 || o.Mark.ClusterUID != testCluster.UID {
			t.Errorf("incomplete: %+v", o)
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d are owned, want %d: %+v", len(all), len(want), all)
	}
}

func TestOwnedFailsWithHalfAnAnswer(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	x.sim.AddFault(ossim.Fault{Service: "network", Method: http.MethodGet, Path: "/floatingips", Status: http.StatusInternalServerError})
	if all, err := x.lbs.Owned(testContext(t), testCluster); err == nil {
		t.Errorf("half an answer is taken for all: %+v", all)
	}
}

// TestOwnedBudget: explain asks for it about one Service of many. A load balancer costs no call of its own.
func TestOwnedBudget(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	x.owned()
	own := plan.NamesOf(x.spec.LoadBalancerRef).OwnerTag
	for range 60 {
		x.makeLB(loadbalancers.CreateOpts{Name: "kube_service_before_team_api", Tags: []string{own}})
	}
	x.sim.ResetRequests()
	all := x.owned()
	if got := calls(x.sim); len(all) != 61 || got > 3 { // one list of load balancers, and floating IPs of 50 ports a call
		t.Errorf("%d load balancers cost %d calls", len(all), got)
	}
	for _, o := range all {
		if want := 1; len(o.Addresses) != want && o.Mark.Service == "team/api" || len(o.Addresses) != want+1 && o.Mark.Service == "default/web" {
			t.Errorf("%s of %s has the addresses %q", o.ID, o.Mark.Service, o.Addresses)
		}
	}
}

// TestRemoveTakesAllThatGoesWithIt: what the Service had, and nothing else.
func TestRemoveTakesAllThatGoesWithIt(t *testing.T) {
	x := newLBTest(t, 1, "")
	users := x.makeLB(loadbalancers.CreateOpts{Name: "users"})
	x.makeFIP(users.VIPPortID, "the user's")
	before := x.objects()
	x.ensure(x.spec)
	o := x.owned()[0]
	x.restart()
	for range 2 { // the second time it is gone
		if err := x.lbs.Remove(testContext(t), testCluster, o); err != nil {
			t.Fatal(err)
		}
	}
	if left := x.objects(); !slices.Equal(left, before) {
		t.Errorf("left: %q, want %q", left, before)
	}
}

// TestRemoveReadsTheMarkAnew: what has become another cluster's, or another Service's, or is used by others, stays.
func TestRemoveReadsTheMarkAnew(t *testing.T) {
	for name, tags := range map[string]func(names plan.Names) []string{
		"another cluster's": func(plan.Names) []string { return []string{"isthmus-cluster=another"} },
		"no cluster's":      func(plan.Names) []string { return nil },
		"another Service's too": func(n plan.Names) []string {
			return []string{n.OwnerTag, n.LB, "kube_service_kubernetes_team_api"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newLBTest(t, 1, "")
			x.ensure(x.spec)
			o := x.owned()[0]
			op, lb := x.op(), x.lb(o.ID)
			if err := op.retag(testContext(t), lb, func([]string) []string { return tags(op.names) }); err != nil {
				t.Fatal(err)
			}
			if _, err := op.waitActive(testContext(t), lb.ID); err != nil {
				t.Fatal(err)
			}
			before := x.objects()
			x.restart()
			x.sim.ResetRequests()
			if err := x.lbs.Remove(testContext(t), testCluster, o); cloud.KindOf(err) != cloud.KindConflict {
				t.Errorf("error %v, want KindConflict", err)
			}
			if n := x.sim.Mutations(); n != 0 || !slices.Equal(before, x.objects()) {
				t.Errorf("%d changing calls; before %q, after %q", n, before, x.objects())
			}
		})
	}
}

// TestRemoveIsTakenUpAfterACrash: whichever call is the last one, the next attempt removes the rest.
func TestRemoveIsTakenUpAfterACrash(t *testing.T) {
	crashEverywhere(t, "", func(x *lbTest) { x.ensure(x.spec) },
		func(x *lbTest) error { return x.lbs.Remove(testContext(x.t), testCluster, x.owned()[0]) },
		func(x *lbTest) {
			for _, o := range x.owned() {
				if err := x.lbs.Remove(testContext(x.t), testCluster, o); err != nil {
					x.t.Errorf("the next attempt: %v", err)
				}
			}
			x.wantNothing("after a crash and another attempt")
		})
}
