package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// TestUpdatesKeep: what others set on a listener or a member is said again in updates that
// replace it as a whole.
func TestUpdatesKeep(t *testing.T) {
	n := plan.NamesOf(cloud.LoadBalancerRef{Cluster: cloud.Cluster{Name: "c", UID: "u1"}, Namespace: "ns", Name: "s"})
	pool := &plan.Pool{ID: "pool-TCP", Name: "pool_0_" + n.LB, Protocol: "TCP", Status: plan.StateActive, Used: true}
	have := &plan.Tree{Pools: []*plan.Pool{pool}, Listeners: []*plan.Listener{{ID: "l", Protocol: "TCP", Port: 80, Pool: pool,
		Tags: []string{"theirs", n.LB}, Headers: map[string]string{"X-Forwarded-Port": "true"}}}}
	want := plan.Nothing(n)
	want.Tree = have.Clone()
	want.Tree.Listeners[0].AllowedCIDRs = []string{"10.0.0.0/8"}
	changes, _, err := plan.Plan(plan.Observed{LoadBalancer: &plan.LoadBalancer{}, Tree: have}, want, plan.Owner)
	if err != nil || len(changes) != 1 {
		t.Fatalf("%v, %v", changes, err)
	}
	body, err := listenerUpdateOpts(changes[0].Listener).ToListenerUpdateMap()
	if err != nil {
		t.Fatal(err)
	}
	got := body["listener"].(map[string]any)
	wanted := map[string]any{"tags": []any{"theirs", n.LB}, "insert_headers": map[string]any{"X-Forwarded-Port": "true"},
		"allowed_cidrs": []any{"10.0.0.0/8"}, "default_pool_id": "pool-TCP"}
	for key := range wanted {
		if diff := cmp.Diff(wanted[key], got[key]); diff != "" {
			t.Errorf("listener's %s (-want +got):\n%s", key, diff)
		}
	}

	zero := 0
	member, err := batchMembers([]plan.Member{{Name: "n", Address: "10.0.0.1", Port: 1, Weight: &zero, Disabled: true, Backup: true, SubnetID: "sub", Tags: []string{"t"}}})[0].ToBatchMemberUpdateMap()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"name": "n", "address": "10.0.0.1", "protocol_port": 1., "weight": 0., "admin_state_up": false,
		"backup": true, "subnet_id": "sub", "tags": []any{"t"}}, member); diff != "" {
		t.Errorf("member (-want +got):\n%s", diff)
	}
}
