package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/manifests"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
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

// What 500 new Nodes cost at the default flags: one write of each Node and one of its status, and a few
// calls of the cloud for all of them. The existing cloud controller manager makes 2,000 calls and 1,500 writes.
func TestFiveHundredNodesAtStart(t *testing.T) {
	t.Parallel()
	for name, ready := range map[string]bool{"ready": true, "not ready": false} {
		t.Run(name, func(t *testing.T) {
			c, sim := newCluster(t), ossim.ForTest(t)
			servers := sim.SeedServers(ossim.Seed{Count: 500, NamePrefix: "node-", Zones: []string{"az1", "az2", "az3"}, Flavor: "m1.small"})
			c.register(servers, always(nodeState{ready: ready}))
			before := len(c.writes())
			begin := time.Now()
			c.startCCM(sim, "--node-monitor-period=5s", "--configure-cloud-routes=false")
			eventually.Met(t, func() string { return c.initialized(servers) })
			took := time.Since(begin).Round(time.Millisecond)
			kinds, each, calls := map[string]int{}, map[string]int{}, map[string]int{}
			for _, w := range c.writes()[before:] {
				if w.User == manager {
					kinds[w.Verb+" "+w.Resource+"/"+w.Subresource]++
					each[w.Name]++
				}
			}
			for _, r := range sim.Requests() {
				calls[r.Method+" "+r.Service+r.Path]++
			}
			t.Logf("500 Nodes initialized in %s: writes %v, calls %v", took, kinds, calls)
			if diff := cmp.Diff(map[string]int{"update nodes/": 500, "patch nodes/status": 500}, kinds); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			for _, s := range servers {
				if each[s.Name] != 2 {
					t.Errorf("%d writes of Node %s, want 2", each[s.Name], s.Name)
				}
			}
			// Beside them, a slow machine sees rounds of the node monitor.
			if n, most := sim.Count("", ""), 8+2*int(took/(5*time.Second)); n == 0 || n > most {
				t.Errorf("%d cloud calls, want 1 to %d: %v", n, most, calls)
			}
		})
	}
}

// manager is as whom the cloud controller manager writes.
const manager = "system:serviceaccount:" + manifests.Namespace + ":" + manifests.ServiceAccount

// writes are the writes of all since the control plane began.
func (c *cluster) writes() []controlplane.Write {
	c.t.Helper()
	writes, err := c.Writes()
	if err != nil {
		c.t.Fatal(err)
	}
	return writes
}
