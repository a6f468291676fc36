package doctor

import (
	"context"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// wrongPassword is one that each cloud refuses, and nobody is to be told.
const wrongPassword = "pa55-of-nobody"

// place is a simulated cloud.
type place struct {
	cloudtest.World
	provider string
	// conf is a cloud.conf that is right.
	conf string
	// key is what begins a key of it, to be misspelled.
	key string
	// deny makes of a configuration one with credentials that the cloud refuses.
	deny func(t *testing.T, conf string) string
	// endpoint is the cloud's address in conf or in the environment, to be replaced by one where nobody answers.
	away func(t *testing.T, conf string) string
	// stack is the simulator, of OpenStack alone, as aws is of AWS.
	stack *ossim.Sim
	aws   *apitest.Cloud
	// vcenter is that of vSphere alone; supervisor that of its guest clusters, with the files of dir.
	vcenter    *vspheresim.VCenter
	supervisor *guest.World
	dir        string
	// refuse has a service refuse the user all below a path, until the test ends; nil where there is no such thing.
	refuse func(t *testing.T, service, path string)
}

func openStack(t *testing.T) *place {
	sim := ossim.ForTest(t)
	w, err := openstack.New(t.Context(), openstack.Access{AuthURL: sim.AuthURL(), Region: ossim.Region, User: ossim.UserName, Password: ossim.UserPassword, Project: ossim.ProjectName},
		openstack.Options{Provider: "amphora", Dir: t.TempDir(), CIDR: netip.MustParsePrefix("10.97.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(context.Background()) }) // the simulator goes with it
	return &place{
		World: w, provider: "openstack", conf: sim.CloudConf(), key: "tenant-name", stack: sim,
		deny: func(_ *testing.T, conf string) string {
			return strings.Replace(conf, "password = "+ossim.UserPassword, "password = "+wrongPassword, 1)
		},
		away: func(_ *testing.T, conf string) string {
			return strings.Replace(conf, sim.AuthURL(), "http://127.0.0.1:1/v3", 1)
		},
		refuse: func(t *testing.T, service, path string) {
			t.Cleanup(sim.AddFault(core.Fault{Service: service, Path: path, Status: http.StatusForbidden}))
		},
	}
}

func amazon(t *testing.T) *place {
	c := apitest.Start(t)
	w, err := aws.New(c.Sim, c.EC2, c.Subnets[0], aws.Options{Kind: aws.Network, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return &place{
		World: w, provider: "aws", key: "Region", aws: c,
		conf: "[Global]\nRegion = " + c.EC2.Name() + "\nKubernetesClusterID = " + aws.ClusterID + "\nVPC = " + c.VPC.ID + "\nSubnetID = " + c.Subnets[0].ID + "\nNodeIPFamilies = ipv4\nNodeIPFamilies = ipv6\n",
		deny: func(t *testing.T, conf string) string {
			t.Setenv("AWS_SECRET_ACCESS_KEY", wrongPassword)
			return conf
		},
		away: func(t *testing.T, conf string) string {
			t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
			return conf
		},
	}
}

func vCenter(t *testing.T) *place {
	v, err := vspheresim.New(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	read := func(file string) string {
		data, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	return &place{
		World: vsphere.World{VCenter: v}, provider: "vsphere", conf: read(v.Config()), key: "ipFamily", vcenter: v,
		deny: func(_ *testing.T, conf string) string { return strings.Replace(conf, v.Password(), wrongPassword, 1) },
		away: func(_ *testing.T, conf string) string { return strings.Replace(conf, v.Host(), "127.0.0.2", 1) },
	}
}

// superVisor is one that is the cluster's own API server.
func superVisor(t *testing.T) *place {
	plane := shared.Plane(t)
	if err := guest.InstallCRDs(t.Context(), plane); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w, err := guest.New(t.Context(), plane, dir, "guest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	file, err := w.Config(strings.NewReplacer())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	return &place{
		World: w, provider: "vsphere-paravirtual", conf: string(data), key: "clusterIPFamily", supervisor: w, dir: dir,
		deny: func(_ *testing.T, conf string) string {
			return strings.Replace(conf, "credentialsDirectory: "+dir, "credentialsDirectory: "+filepath.Join(dir, "denied"), 1)
		},
		away: func(t *testing.T, conf string) string {
			return instead("server: https://", "server: https://127.0.0.1:1/")(&set{t: t}, conf)
		},
	}
}
