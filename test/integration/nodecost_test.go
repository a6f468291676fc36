package integration

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// A Node without a provider ID whose server is gone is removed, which the existing cloud
// controller manager never does: with the machine's UUID and without one, and also when
// another server has taken its name's twin.
func TestComplaintEmptyProviderIDIsNeverRemoved(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 12, NamePrefix: "node-"})
	c.register(servers, always(nodeState{})) // not ready, not initialized
	for _, s := range servers[:6] {
		patch := fmt.Sprintf(`{"status":{"nodeInfo":{"systemUUID":%q}}}`, s.ID)
		if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), s.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	gone := map[string]bool{servers[0].Name: true, servers[6].Name: true}
	sim.DeleteServer(servers[0].ID)
	sim.DeleteServer(servers[6].ID)
	c.startFastCCM(sim, "--leader-elect=false", "--controllers=cloud-node-lifecycle")
	eventually.Met(t, c.left(10))
	c.wantUntouched(t, namesOf(servers), gone)
}

// Nodes that are not ready cost two calls each every five seconds with the existing cloud
// controller manager; here at most three in all, for any number.
func TestComplaintNotReadyNodeCost(t *testing.T) {
	t.Parallel()
	for _, count := range []int{2, 500} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			c, sim := newCluster(t), ossim.ForTest(t)
			servers := sim.SeedServers(ossim.Seed{Count: count, NamePrefix: "node-"})
			c.register(servers, always(nodeState{initialized: true}))
			c.startFastCCM(sim, "--leader-elect=false", "--controllers=cloud-node-lifecycle", "--node-monitor-period=2s")
			eventually.Met(t, func() string {
				if sim.Count("compute", "") == 0 {
					return "nothing was read yet"
				}
				return ""
			})
			sim.ResetRequests()
			began, calls := time.Now(), 0
			eventually.Met(t, func() string { // two cycles at least
				if calls = sim.Count("compute", "") + sim.Count("network", ""); calls < 4 {
					return fmt.Sprintf("%d calls", calls)
				}
				return ""
			})
			if cycles := 2 + int(time.Since(began)/(2*time.Second)); calls > 3*cycles {
				t.Errorf("%d calls in at most %d cycles, want at most 3 a cycle", calls, cycles)
			}
			c.wantUntouched(t, namesOf(servers), nil)
		})
	}
}

// The status of 500 nodes costs 500 times three calls a round with the existing cloud
// controller manager; here it is a list of servers and one of ports.
func TestComplaintNodeStatusOneCallPerNode(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 500, NamePrefix: "node-"})
	c.register(servers, always(nodeState{ready: true, initialized: true}))
	sim.SetServerAccessIPs(servers[499].ID, "192.0.2.9", "")
	c.startCCM(sim, "--leader-elect=false", "--controllers=cloud-node")
	eventually.Met(t, func() string {
		if a := addressOf(c.nodes()[servers[499].Name], corev1.NodeExternalIP); a != "192.0.2.9" {
			return "the last node has the external IP " + a
		}
		return ""
	})
	if calls := sim.Count("compute", "") + sim.Count("network", ""); calls > 4 {
		t.Errorf("%d calls, want at most 4", calls)
	}
}
