// Package clitest has simulated clouds for tests of the commands, each with the configuration by which a command finds it. What is made
// ends with its test.
package clitest

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	vspheresim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
	"github.com/isthmus-cloud/isthmus/test/conformance/aws"
	"github.com/isthmus-cloud/isthmus/test/conformance/openstack"
	"github.com/isthmus-cloud/isthmus/test/conformance/vsphere"
	"github.com/isthmus-cloud/isthmus/test/conformance/vsphere/paravirtual"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// Cloud is a simulated cloud.
type Cloud struct {
	cloudtest.World
	// Provider is the value of --cloud-provider.
	Provider string
	// Conf is the text of its configuration file.
	Conf string
	// Settings are the annotations by which a Service gets the kind of load balancer that World looks at.
	Settings cloud.Settings

	// One of these is what simulates it; the others are nil.
	OpenStack  *ossim.Sim
	AWS        *apitest.Cloud
	VSphere    *vspheresim.VCenter
	Supervisor *paravirtual.World
}

// NewOpenStack starts an OpenStack.
func NewOpenStack(t *testing.T, o ossim.Options) *Cloud {
	t.Helper()
	sim := ossim.ForTest(t, o)
	w, err := openstack.New(t.Context(), openstack.Access{AuthURL: sim.AuthURL(), Region: ossim.Region, User: ossim.UserName, Password: ossim.UserPassword, Project: ossim.ProjectName},
		openstack.Options{Provider: "amphora", Dir: t.TempDir(), CIDR: netip.MustParsePrefix("10.97.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(context.Background()) }) //nolint:forbidigo // the test's has ended then; the simulator goes with it
	return &Cloud{World: w, Provider: "openstack", Conf: sim.CloudConf(), OpenStack: sim}
}

// NewAWS starts an AWS with a VPC, whose load balancers are network load balancers.
func NewAWS(t *testing.T, o awssim.Options) *Cloud {
	t.Helper()
	c := apitest.StartWith(t, o)
	w, err := aws.New(c.Sim, c.EC2, c.Subnets[0], aws.Options{Kind: aws.Network, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return &Cloud{World: w, Provider: "aws", Settings: w.Annotations(), AWS: c,
		Conf: "[Global]\nRegion = " + c.EC2.Name() + "\nKubernetesClusterID = " + aws.ClusterID + "\nVPC = " + c.VPC.ID + "\nSubnetID = " + c.Subnets[0].ID + "\n"}
}

// NewVSphere starts a vCenter.
func NewVSphere(t *testing.T) *Cloud {
	t.Helper()
	v, err := vspheresim.New(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return &Cloud{World: vsphere.World{VCenter: v}, Provider: "vsphere", Conf: read(t, v.Config()), VSphere: v}
}

// NewSupervisor makes a namespace guest of a Supervisor, which the cluster's own API server stands for. dir gets the files that Conf names.
func NewSupervisor(t *testing.T, plane *controlplane.ControlPlane, dir string) *Cloud {
	t.Helper()
	if err := paravirtual.InstallCRDs(t.Context(), plane); err != nil {
		t.Fatal(err)
	}
	w, err := paravirtual.New(t.Context(), plane, dir, "guest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	file, err := w.Config(strings.NewReplacer())
	if err != nil {
		t.Fatal(err)
	}
	return &Cloud{World: w, Provider: "vsphere-paravirtual", Conf: read(t, file), Supervisor: w}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
