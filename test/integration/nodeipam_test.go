package integration

import (
	"fmt"
	"strings"
	"testing"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// withoutCIDR lists the Nodes that have no pod CIDR; two with the same one fail the test.
func (c *cluster) withoutCIDR() []string {
	c.t.Helper()
	var none []string
	owner := map[string]string{}
	for name, n := range c.nodes() {
		if len(n.Spec.PodCIDRs) == 0 {
			none = append(none, name)
		}
		for _, cidr := range n.Spec.PodCIDRs {
			if other, taken := owner[cidr]; taken {
				c.t.Fatalf("%s and %s both have %s", other, name, cidr)
			}
			owner[cidr] = name
		}
	}
	return none
}

func (c *cluster) wantCIDRs() {
	c.t.Helper()
	eventually.Met(c.t, func() string {
		if none := c.withoutCIDR(); len(none) > 0 {
			return fmt.Sprintf("without a pod CIDR: %v", none)
		}
		return ""
	})
}

// With the rights of the manifests, under the lease.
func TestNodeIPAM(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	args := []string{"--controllers=node-ipam-controller", "--allocate-node-cidrs", "--cluster-cidr=10.244.0.0/21,fd00::/48", "--service-cluster-ip-range=10.244.0.0/22"}
	r := c.startCCM(sim, args...)
	servers := sim.SeedServers(ossim.Seed{Count: 5, NamePrefix: "node-"})
	c.register(servers[:2], always(nodeState{}))
	c.wantCIDRs()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	c.startCCM(sim, args...)
	c.register(servers[2:], always(nodeState{}))
	eventually.Met(t, func() string {
		none := c.withoutCIDR()
		if len(none) == 1 && strings.Contains(c.eventsOf(none[0]), "Node waits for a pod CIDR") {
			return ""
		}
		return fmt.Sprintf("without a pod CIDR are %v, without an event", none)
	})
}

// Clusters that come from another cloud controller manager have --allocate-node-cidrs for
// their routes, and kube-controller-manager allocates.
func TestNodeIPAMIsOffByDefault(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	c.startCCM(sim, "--controllers=*", "--allocate-node-cidrs")
	c.register(sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"}), always(nodeState{}))
	eventually.Met(t, func() string {
		for name, n := range c.nodes() {
			if n.Spec.ProviderID == "" {
				return name + " is not initialized"
			}
		}
		return ""
	})
	if none := c.withoutCIDR(); len(none) != 1 {
		t.Error("a pod CIDR was allocated")
	}
}
