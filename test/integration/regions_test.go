package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// One process serves Nodes of two regions: with their region's provider ID, labels and
// routes; and a region that is down keeps its Nodes and no one else's.
func TestNodesOfTwoRegions(t *testing.T) {
	c, one := newCluster(t), ossim.ForTest(t)
	two := ossim.ForTest(t, ossim.Options{Keystone: one, Region: "RegionTwo"})
	inOne := one.SeedServers(ossim.Seed{Count: 3, NamePrefix: "one-", Zones: []string{"az1"}, Flavor: "m1.small"})
	inTwo := two.SeedServers(ossim.Seed{Count: 3, NamePrefix: "two-", Zones: []string{"az2"}, Flavor: "m1.small"})
	subnet := func(of byte) func(int) nodeState {
		return func(i int) nodeState {
			return nodeState{ready: true, podCIDRs: []string{fmt.Sprintf("10.244.%d.0/24", int(of)*16+i)}}
		}
	}
	c.register(inOne, subnet(1))
	c.register(inTwo, subnet(2))
	c.startCCMWith(fmt.Sprintf("%s\n[Region \"RegionTwo\"]\nrouter-id = %s\n", one.CloudConf(), two.Defaults().RouterID))
	eventually.Met(t, func() string {
		if missing := c.initialized(inOne); missing != "" {
			return missing
		}
		for _, s := range inTwo {
			n := c.nodes()[s.Name]
			if n.Spec.ProviderID != "openstack://RegionTwo/"+s.ID || n.Labels[corev1.LabelTopologyRegion] != "RegionTwo" || n.Labels[corev1.LabelTopologyZone] != "az2" ||
				hasTaint(n, cloudproviderapi.TaintExternalCloudProvider) || addressOf(n, corev1.NodeInternalIP) != s.Addresses[0].String() {
				return fmt.Sprintf("%s has provider ID %q, labels %v and taints %v", s.Name, n.Spec.ProviderID, n.Labels, n.Spec.Taints)
			}
		}
		return ""
	})
	routes := func(sim *ossim.Sim) int { return len(sim.RouterRoutes(sim.Defaults().RouterID)) }
	eventually.Met(t, func() string {
		if routes(one) != 3 || routes(two) != 3 {
			return fmt.Sprintf("%d and %d routes, want 3 in each region", routes(one), routes(two))
		}
		return ""
	})

	up := two.AddFault(ossim.Fault{Status: 503})
	one.DeleteServer(inOne[0].ID)
	two.DeleteServer(inTwo[0].ID)
	for _, s := range []ossim.Server{inOne[0], inTwo[0], inTwo[1]} {
		c.setReady(s.Name, corev1.ConditionFalse)
	}
	gone := func(s ossim.Server) func() string {
		return func() string {
			if _, ok := c.nodes()[s.Name]; ok {
				return "Node " + s.Name + " is there"
			}
			return ""
		}
	}
	eventually.Met(t, gone(inOne[0]))
	nodes := c.nodes()
	for _, s := range append(inTwo, inOne[1:]...) {
		if _, ok := nodes[s.Name]; !ok {
			t.Errorf("Node %s was removed while its region was down, or although its server is there", s.Name)
		}
	}
	eventually.Met(t, func() string {
		if routes(one) != 2 {
			return fmt.Sprintf("%d routes in the region that is up, want 2", routes(one))
		}
		return ""
	})
	up()
	eventually.Met(t, gone(inTwo[0]))
	if _, ok := c.nodes()[inTwo[1].Name]; !ok {
		t.Errorf("Node %s, whose server is there, was removed", inTwo[1].Name)
	}
}
