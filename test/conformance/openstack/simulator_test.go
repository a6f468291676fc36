package openstack_test

import (
	"context"
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/conformance/openstack"
	"github.com/isthmus-cloud/isthmus/test/golden"
)

// The features mostly wait.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	m.Run()
}

func TestSimulator(t *testing.T) {
	for _, provider := range []string{"amphora", "ovn"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			sim := ossim.ForTest(t, ossim.Options{StateDelay: time.Millisecond})
			access := openstack.Access{AuthURL: sim.AuthURL(), Region: ossim.Region, User: ossim.UserName, Password: ossim.UserPassword, Project: ossim.ProjectName}
			world, err := openstack.New(t.Context(), access, openstack.Options{Provider: provider, Dir: t.TempDir(), CIDR: sim.Spare(), Throttle: func() (func(), string) {
				return sim.AddFault(ossim.Fault{Status: 429}), ""
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := world.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			results := cloudtest.Run(t, world.Setup(openstack.Unsupported(provider, openstack.Simulator)))
			if results.Complete() && !t.Failed() { // else the name pattern has left features out, or the run says what is wrong
				golden.Compare(t, filepath.Join("testdata", "simulator-"+provider+".golden"), results.Marshal())
			}
		})
	}
}
