package paravirtual_test

import (
	"path/filepath"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	world "github.com/isthmus-cloud/isthmus/test/conformance/vsphere/paravirtual"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/golden"
)

var shared controlplane.Shared

func TestMain(m *testing.M) { shared.Main(m) }

// start makes a namespace of its own.
func start(t *testing.T, namespace string) *world.World {
	t.Helper()
	plane := shared.Plane(t)
	if err := world.InstallCRDs(t.Context(), plane); err != nil {
		t.Fatal(err)
	}
	w, err := world.New(t.Context(), plane, t.TempDir(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func TestSimulator(t *testing.T) {
	r := cloudtest.Run(t, start(t, "conformance").Setup())
	if r.Complete() && !t.Failed() { // else the name pattern has left features out, or the run says what is wrong
		golden.Compare(t, filepath.Join("testdata", "simulator.golden"), r.Marshal())
	}
}
