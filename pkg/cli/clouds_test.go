package cli

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	vspheresim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
	"github.com/isthmus-cloud/isthmus/test/conformance/aws"
	"github.com/isthmus-cloud/isthmus/test/conformance/openstack"
	"github.com/isthmus-cloud/isthmus/test/conformance/vsphere"
)

// place is a simulated cloud.
type place struct {
	cloudtest.World
	provider string
	// conf is the path of its cloud.conf.
	conf string
	// settings are the annotations of each Service.
	settings cloud.Settings
	// instances makes so many.
	instances func(t *testing.T, n int) []cloudtest.Instance
	// took returns how often what was asked since the last call.
	took func() map[string]int
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func openStack(t *testing.T) *place {
	t.Helper()
	sim := ossim.ForTest(t, ossim.Options{StateDelay: -1})
	w, err := openstack.New(t.Context(), openstack.Access{AuthURL: sim.AuthURL(), Region: ossim.Region, User: ossim.UserName, Password: ossim.UserPassword, Project: ossim.ProjectName},
		openstack.Options{Provider: "amphora", Dir: t.TempDir(), CIDR: netip.MustParsePrefix("10.97.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(context.Background()) }) // the simulator goes with it
	return &place{World: w, provider: "openstack", conf: write(t, sim.CloudConf()+"\n[LoadBalancer]\nmanage-security-groups = true\n"),
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
	c := apitest.StartWith(t, awssim.Options{EC2: ec2.Options{RulesPerGroup: many}, ELB: elb.Options{LoadBalancers: many}, ELBv2: elbv2.Options{LoadBalancers: many, Targets: many, ZoneTargets: many}})
	w, err := aws.New(c.Sim, c.EC2, c.Subnets[0], aws.Options{Kind: aws.Network, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	conf := "[Global]\nRegion = " + c.EC2.Name() + "\nKubernetesClusterID = " + aws.ClusterID + "\nVPC = " + c.VPC.ID + "\nSubnetID = " + c.Subnets[0].ID + "\n"
	return &place{World: w, provider: "aws", conf: write(t, conf), settings: w.Annotations(), instances: one(w), took: func() map[string]int {
		out := map[string]int{}
		for _, a := range c.Actions() {
			out[a]++
		}
		return out
	}}
}

// classic is AWS with classic load balancers.
func classic(t *testing.T) *place {
	t.Helper()
	p := amazon(t)
	p.settings = nil
	return p
}

func vCenter(t *testing.T) *place {
	t.Helper()
	v, err := vspheresim.New(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	v.SetPage(40)
	w, seen := vsphere.World{VCenter: v}, map[string]int{}
	return &place{World: w, provider: "vsphere", conf: v.Config(), instances: one(w), took: func() map[string]int {
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
