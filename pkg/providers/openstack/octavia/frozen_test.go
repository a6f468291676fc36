package octavia

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// frozenOf is the spec as the service controller has it while the wish is not valid.
func frozenOf(spec *cloud.LoadBalancerSpec, change func(*cloud.LoadBalancerSpec)) *cloud.LoadBalancerSpec {
	frozen := *spec
	frozen.Frozen = true
	change(&frozen)
	return &frozen
}

// TestMembersFollowWhenWishIsInvalid: of a frozen Service only the members change, also after a
// restart, and no pool is emptied.
func TestMembersFollowWhenWishIsInvalid(t *testing.T) {
	for _, provider := range []string{"amphora", "ovn"} {
		t.Run(provider, func(t *testing.T) {
			x := newLBTest(t, 3, "lb-provider="+provider+"\ncreate-monitor=true\n")
			x.spec.HealthCheck = &cloud.HealthCheck{Port: 31000, Path: "/healthz"}
			x.spec.Members = x.all[:2]
			x.ensure(x.spec)
			want := x.tree(x.spec)
			frozen := frozenOf(x.spec, func(s *cloud.LoadBalancerSpec) {
				s.Settings = cloud.Settings{plan.AnnLoadBalancerID: x.spec.Settings[plan.AnnLoadBalancerID], plan.AnnClass: "nobody's", plan.AnnForwardedFor: "true", plan.AnnProxyProtocol: "v1", plan.AnnMethod: config.MethodSourceIP}
				s.Members, s.Ports = x.all[1:], slices.Clone(s.Ports[:1]) // and one port is missing
			})
			x.restart()
			if err := x.lbs.UpdateMembers(testContext(t), frozen); err != nil {
				t.Fatal(err)
			}
			x.spec.Members = x.all[1:]
			got := x.tree(x.spec)
			for i, p := range got.Pools {
				if len(p.Members) != 2 || p.Members[1].Name != x.all[2].Node.NodeName || p.Members[1].Port != want.Pools[i].Members[0].Port ||
					p.Members[1].MonitorPort != want.Pools[i].Members[0].MonitorPort || p.Members[1].SubnetID != want.Pools[i].Members[0].SubnetID {
					t.Errorf("members of pool %s: %+v, before %+v", p.Name, p.Members, want.Pools[i].Members)
				}
				p.Members, want.Pools[i].Members = nil, nil
				p.Status, want.Pools[i].Status = "", ""
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("more than the members has changed (-before +after):\n%s", diff)
			}
			x.budget("nothing to do", 2, func() {
				if err := x.lbs.UpdateMembers(testContext(t), frozen); err != nil {
					t.Fatal(err)
				}
			})
			frozen.Members = nil
			if err := x.lbs.UpdateMembers(testContext(t), frozen); err != nil || len(x.tree(x.spec).Pools[0].Members) != 2 {
				t.Errorf("without any Node the pools are emptied, %v", err)
			}
			x.ensure(x.spec)
			x.wantConverged(x.spec, provider)
		})
	}
}

// TestFrozenLeavesOthersAlone: what is not the Service's beyond doubt gets none of its Nodes.
func TestFrozenLeavesOthersAlone(t *testing.T) {
	x := newLBTest(t, 2, "")
	x.ensure(x.spec)
	other := x.service("web", cloud.Settings{})
	other.Cluster.UID = "0a1b2c3d-0000-4000-8000-00000000000f"
	other.Members = x.all[:1]
	err := x.lbs.UpdateMembers(testContext(t), frozenOf(other, func(*cloud.LoadBalancerSpec) {}))
	if cloud.KindOf(err) != cloud.KindConflict || len(x.tree(x.spec).Pools[0].Members) != 2 {
		t.Errorf("another cluster's: %v, members %+v", err, x.tree(x.spec).Pools[0].Members)
	}
	if err := x.lbs.UpdateMembers(testContext(t), frozenOf(x.service("absent", nil), func(*cloud.LoadBalancerSpec) {})); !cloud.IsNotFound(err) {
		t.Errorf("without a load balancer: %v, want KindNotFound", err)
	}
}

// TestMembersThatAreNoNodesGoWhenNobodyKnowsTheSelected: of a selector that is not valid. No pool is
// emptied.
func TestMembersThatAreNoNodesGoWhenNobodyKnowsTheSelected(t *testing.T) {
	x := newLBTest(t, 3, "")
	x.spec.Members = x.all[:2]
	x.ensure(x.spec)
	for _, step := range []struct{ candidates, want []cloud.LoadBalancerMember }{
		{x.all, x.all[:2]}, {x.all[1:], x.all[1:2]}, {x.all[2:], x.all[1:2]}, {nil, x.all[1:2]},
	} {
		frozen := frozenOf(x.spec, func(s *cloud.LoadBalancerSpec) { s.Members, s.Candidates = nil, step.candidates })
		if err := x.lbs.UpdateMembers(testContext(t), frozen); err != nil {
			t.Fatal(err)
		}
		for _, p := range x.tree(x.spec).Pools {
			var got []string
			for _, m := range p.Members {
				got = append(got, m.Name)
			}
			var want []string
			for _, m := range step.want {
				want = append(want, m.Node.NodeName)
			}
			if !slices.Equal(got, want) {
				t.Errorf("of %d Nodes pool %s has the members %q, want %q", len(step.candidates), p.Name, got, want)
			}
		}
	}
}

// TestMembersFollowWhenWishIsInvalidAndAnAddressIsAllEvidence: a load balancer of another controller's
// making that the Service has by its address is the Service's, marked or not.
func TestMembersFollowWhenWishIsInvalidAndAnAddressIsAllEvidence(t *testing.T) {
	x, _ := recorded(t, "s-mixed", 0, "") // two Nodes
	lb := x.made(x.spec)
	frozen := frozenOf(x.spec, func(s *cloud.LoadBalancerSpec) {
		s.Settings = cloud.Settings{plan.AnnAddress: x.spec.Settings[plan.AnnAddress], plan.AnnClass: "nobody's"}
		s.Members = x.all
	})
	if err := x.lbs.UpdateMembers(testContext(t), frozen); err != nil {
		t.Fatal(err)
	}
	for _, p := range x.treeOf(lb.ID).Pools {
		if len(p.Members) != 3 {
			t.Errorf("members of pool %s: %+v", p.Name, p.Members)
		}
	}
}

// TestMembersKeepTheirNamesWhenWishIsInvalid: those that they have where children are made one by one.
func TestMembersKeepTheirNamesWhenWishIsInvalid(t *testing.T) {
	x := newLBTest(t, 2, "provider-requires-serial-api-calls=true\n")
	x.ensure(x.spec)
	x.sim.ResetRequests()
	frozen := frozenOf(x.spec, func(s *cloud.LoadBalancerSpec) { s.Settings[plan.AnnClass] = "nobody's" })
	if err := x.lbs.UpdateMembers(testContext(t), frozen); err != nil || x.sim.Mutations() > 0 {
		t.Errorf("%v, %d changes; want none", err, x.sim.Mutations())
	}
}
