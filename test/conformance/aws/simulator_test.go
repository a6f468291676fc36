package aws_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/conformance/aws"
)

var update = flag.Bool("update", false, "write the golden file")

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
			checkGolden(t, filepath.Join("testdata", "simulator-"+string(o.Kind)+".golden"), cloudtest.Run(t, world.Setup()))
		})
	}
}

// checkGolden compares complete results with a golden file. What a run has found that failed is neither compared nor written.
func checkGolden(t *testing.T, file string, r cloudtest.Results) {
	t.Helper()
	if !r.Complete() || t.Failed() {
		return // the name pattern has left features out, or the run says what is wrong
	}
	if *update {
		if err := os.WriteFile(filepath.Clean(file), r.Marshal(), 0o644); err != nil { //nolint:gosec // for everyone
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, r.Marshal()) {
		t.Errorf("%s is stale: run the test with -update, then make generate", file)
	}
}
