package explain

import (
	"context"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	vspheresim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
	"github.com/isthmus-cloud/isthmus/test/conformance/aws"
	"github.com/isthmus-cloud/isthmus/test/conformance/openstack"
	"github.com/isthmus-cloud/isthmus/test/conformance/vsphere"
	guest "github.com/isthmus-cloud/isthmus/test/conformance/vsphere/paravirtual"
)

// place is a simulated cloud.
type place struct {
	cloudtest.World
	provider string
	// conf is its cloud.conf, and clusterName the flag's value, "" for its default.
	conf, clusterName string
	// changes are the calls that have changed it, masked.
	changes func() []string
	// wrong is an annotation that it does not take, "" where it takes none.
	wrong string
	// selects is true where the cloud itself finds the members of load balancers.
	selects bool
	// part is how the plan of a load balancer that is not there ends: it is the beginning of what is done then, and not all of it.
	part bool
	// fail has the service of load balancers answer with a status until undone.
	fail func(status int) (undo func())
	// newborn is true where it may not know an instance yet of a Node that is as new.
	newborn bool
}

var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// masked is a call without what differs each time, and without the parts of a path that a simulator leaves out.
func masked(call string) string {
	for _, endpoint := range []string{"/load-balancer/v2.0", "/network/v2.0", "/apis/"} {
		call = strings.Replace(call, endpoint, "", 1)
	}
	call, _, _ = strings.Cut(call, "?")
	return ids.ReplaceAllString(call, "ID")
}

func openStack(t *testing.T) *place {
	sim := ossim.ForTest(t, ossim.Options{StateDelay: 3 * time.Millisecond})
	w, err := openstack.New(t.Context(), openstack.Access{AuthURL: sim.AuthURL(), Region: ossim.Region, User: ossim.UserName, Password: ossim.UserPassword, Project: ossim.ProjectName},
		openstack.Options{Provider: "amphora", Dir: t.TempDir(), CIDR: netip.MustParsePrefix("10.97.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(context.Background()) }) // the simulator goes with it
	return &place{World: w, provider: "openstack", conf: sim.CloudConf(), wrong: "loadbalancer.openstack.org/default-tls-container-ref", part: true, fail: func(status int) func() {
		return sim.AddFault(core.Fault{Service: "load-balancer", Status: status})
	}, changes: func() (out []string) {
		for _, r := range sim.Requests() {
			if r.Method != http.MethodGet && r.Service != "identity" {
				out = append(out, masked(r.Method+" "+r.Path))
			}
		}
		return out
	}}
}

func amazon(t *testing.T) *place {
	c := apitest.Start(t)
	w, err := aws.New(c.Sim, c.EC2, c.Subnets[0], aws.Options{Kind: aws.Network, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return &place{World: w, provider: "aws", newborn: true, wrong: "service.beta.kubernetes.io/aws-load-balancer-target-group-attributes",
		conf: "[Global]\nRegion = " + c.EC2.Name() + "\nKubernetesClusterID = " + aws.ClusterID + "\nVPC = " + c.VPC.ID + "\nSubnetID = " + c.Subnets[0].ID + "\n",
		changes: func() (out []string) {
			for _, a := range c.Actions() {
				if !strings.HasPrefix(a, "Describe") {
					out = append(out, a)
				}
			}
			return out
		}}
}

// superVisor is one that is the cluster's own API server.
func superVisor(t *testing.T) *place {
	plane := shared.Plane(t)
	if err := guest.InstallCRDs(t.Context(), plane); err != nil {
		t.Fatal(err)
	}
	w, err := guest.New(t.Context(), plane, t.TempDir(), "guest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	file, err := w.Config(strings.NewReplacer())
	if err != nil {
		t.Fatal(err)
	}
	conf, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	return &place{World: w, provider: "vsphere-paravirtual", conf: string(conf), clusterName: w.Owner.Name, selects: true, changes: func() []string {
		for _, r := range guest.Writes(w.Requests()) {
			all = append(all, masked(r))
		}
		return all
	}}
}

func vCenter(t *testing.T) *place {
	v, err := vspheresim.New(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	conf, err := os.ReadFile(v.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &place{World: vsphere.World{VCenter: v}, provider: "vsphere", conf: string(conf), changes: v.Changes}
}
