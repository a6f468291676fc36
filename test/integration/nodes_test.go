package integration

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// initialized says which of the servers' Nodes lack what the node controller sets.
func (c *cluster) initialized(servers []ossim.Server) string {
	nodes := c.nodes()
	for _, s := range servers {
		n, ok := nodes[s.Name]
		if !ok {
			return "Node " + s.Name + " is gone"
		}
		switch internal := addressOf(n, corev1.NodeInternalIP); {
		case hasTaint(n, cloudproviderapi.TaintExternalCloudProvider):
			return n.Name + " still has its taint"
		case n.Spec.ProviderID != "openstack:///"+s.ID:
			return fmt.Sprintf("%s has provider ID %q, want that of %s", n.Name, n.Spec.ProviderID, s.ID)
		case n.Labels[corev1.LabelTopologyZone] != s.Zone || n.Labels[corev1.LabelTopologyRegion] != ossim.Region:
			return fmt.Sprintf("%s has labels %v, want zone %s", n.Name, n.Labels, s.Zone)
		case n.Labels[corev1.LabelInstanceTypeStable] != s.Flavor:
			return fmt.Sprintf("%s has labels %v, want type %s", n.Name, n.Labels, s.Flavor)
		case internal != s.Addresses[0].String():
			return fmt.Sprintf("%s has internal IP %q, want %s", n.Name, internal, s.Addresses[0])
		}
	}
	return ""
}

func addressOf(n corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return ""
}

// The existing cloud controller manager makes 1,500 calls here.
func TestFiveHundredNodesAtStart(t *testing.T) {
	t.Parallel()
	for name, ready := range map[string]bool{"ready": true, "not ready": false} {
		t.Run(name, func(t *testing.T) {
			c, sim := newCluster(t), ossim.ForTest(t)
			servers := sim.SeedServers(ossim.Seed{Count: 500, NamePrefix: "node-", Zones: []string{"az1", "az2", "az3"}, Flavor: "m1.small"})
			c.register(servers, always(nodeState{ready: ready}))
			begin := time.Now()
			c.startCCM(sim, "--node-monitor-period=5s", "--concurrent-node-syncs=10", "--controllers=cloud-node,cloud-node-lifecycle")
			eventually(t, 2*time.Minute, func() string { return c.initialized(servers) })
			calls := sim.Count("compute", "") + sim.Count("network", "")
			t.Logf("500 nodes initialized in %s with %d compute and network calls", time.Since(begin).Round(time.Millisecond), calls)
			if calls == 0 || calls > 12 {
				t.Errorf("got %d compute and network calls, want 1 to 12: %v", calls, sim.Requests())
			}
		})
	}
}
