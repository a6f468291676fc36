package aws_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/test/conformance/aws"
)

var update = flag.Bool("update", false, "write the golden file")

func TestSimulator(t *testing.T) {
	c := apitest.Start(t)
	world, err := aws.New(c.Sim, c.EC2, c.Subnets[0], t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	results := cloudtest.Run(t, world.Setup())
	if len(results) != len(cloudtest.Features())-len(aws.Untried()) {
		return // the name pattern has left features out
	}
	if t.Failed() {
		t.Log("the golden file is neither compared nor written: the run has failed")
		return
	}
	file := filepath.Join("testdata", "simulator.golden")
	if *update {
		if err := os.WriteFile(file, results.Marshal(), 0o644); err != nil { //nolint:gosec // for everyone
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, results.Marshal()) {
		t.Errorf("%s is stale: run the test with -update, then make generate", file)
	}
}
