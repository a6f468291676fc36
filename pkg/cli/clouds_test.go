package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cli/clitest"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// place is a simulated cloud.
type place struct {
	*clitest.Cloud
	// instances makes so many.
	instances func(t *testing.T, n int) []cloudtest.Instance
	// took returns how often what was asked since the last call.
	took func() map[string]int
}

func openStack(t *testing.T) *place {
	t.Helper()
	c := clitest.NewOpenStack(t, ossim.Options{StateDelay: -1})
	c.Conf += "\n[LoadBalancer]\nmanage-security-groups = true\n"
	sim := c.OpenStack
	return &place{Cloud: c,
		instances: func(_ *testing.T, n int) (out []cloudtest.Instance) {
			for _, s := range sim.SeedServers(ossim.Seed{Count: n, NamePrefix: "node-"}) {
				out = append(out, cloudtest.Instance{Ref: cloud.InstanceRef{NodeName: s.Name, ProviderID: "openstack:///" + s.ID}, Addresses: s.Addresses})
			}
			return out
		},
		took: func() map[string]int {
			out := map[string]int{}
			for _, r := range sim.Requests() {
				out[r.Service+" "+r.Method+" "+masked(r.Path)]++
			}
			sim.ResetRequests()
			return out
		}}
}

// masked is a path without the IDs in it.
func masked(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if len(s) >= 32 {
			segments[i] = "ID"
		}
	}
	return strings.Join(segments, "/")
}

func amazon(t *testing.T) *place {
	t.Helper()
	const many = 2000
	c := clitest.NewAWS(t, awssim.Options{EC2: ec2.Options{RulesPerGroup: many}, ELB: elb.Options{LoadBalancers: many}, ELBv2: elbv2.Options{LoadBalancers: many, Targets: many, ZoneTargets: many}})
	return &place{Cloud: c, instances: one(c.World), took: func() map[string]int {
		out := map[string]int{}
		for _, a := range c.AWS.Actions() {
			out[a]++
		}
		return out
	}}
}

// classic is AWS with classic load balancers.
func classic(t *testing.T) *place {
	t.Helper()
	p := amazon(t)
	p.Settings = nil
	return p
}

func vCenter(t *testing.T) *place {
	t.Helper()
	c, seen := clitest.NewVSphere(t), map[string]int{}
	v := c.VSphere
	v.SetPage(40)
	return &place{Cloud: c, instances: one(c.World), took: func() map[string]int {
		out := map[string]int{}
		for method, n := range v.Methods() {
			if more := n - seen[method]; more > 0 {
				out[method] = more
			}
			seen[method] = n
		}
		return out
	}}
}

// one makes instances one by one.
func one(w cloudtest.World) func(*testing.T, int) []cloudtest.Instance {
	return func(t *testing.T, n int) (out []cloudtest.Instance) {
		t.Helper()
		for range n {
			i, err := w.MakeInstance(t.Context(), "node-"+time.Now().Format("150405.000000000"))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, i)
		}
		return out
	}
}
