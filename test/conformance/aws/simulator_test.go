package aws_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/conformance/aws"
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
	for name, o := range map[string]aws.Options{
		"network": {Kind: aws.Network}, "classic": {Kind: aws.Classic},
		// With security groups of their own, network load balancers do the same.
		"network, security groups": {Kind: aws.Network, Conf: "NLBSecurityGroupMode = Managed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c := apitest.StartWith(t, awssim.Options{Traffic: true})
			o.Dir = t.TempDir()
			world, err := aws.New(c.Sim, c.EC2, c.Subnets[0], o)
			if err != nil {
				t.Fatal(err)
			}
			r := cloudtest.Run(t, world.Setup())
			if r.Complete() && !t.Failed() { // else the name pattern has left features out, or the run says what is wrong
				golden.Compare(t, filepath.Join("testdata", "simulator-"+string(o.Kind)+".golden"), r.Marshal())
			}
		})
	}
}
