package vsphere_test

import (
	"fmt"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	world "github.com/isthmus-cloud/isthmus/test/conformance/vsphere"
)

func start(t *testing.T, machines int) *world.World {
	t.Helper()
	w, err := world.New(t.Context(), t.TempDir(), machines)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func TestSimulator(t *testing.T) {
	cloudtest.Run(t, start(t, 1).Setup())
}

// All machines of a vCenter take the same calls, however many there are.
func TestCallsDoNotGrowWithMachines(t *testing.T) {
	var calls []int64
	for _, machines := range []int{1, 60} {
		w := start(t, machines)
		var refs []cloud.InstanceRef
		for n := range 10 {
			i, err := w.MakeInstance(t.Context(), fmt.Sprint("node-", n))
			if err != nil {
				t.Fatal(err)
			}
			i.Ref.NodeName = ""
			refs = append(refs, i.Ref)
		}
		p, stop, err := w.Setup().New(cloud.Options{})
		if err != nil {
			t.Fatal(err)
		}
		before := w.Requests.Load()
		for _, r := range p.Instances.Find(t.Context(), refs) {
			if r.Err != nil || r.Value.Zone != "zone-a" || r.Value.Region != "region-a" {
				t.Fatalf("%+v, %v", r.Value, r.Err)
			}
		}
		calls = append(calls, w.Requests.Load()-before)
		before = w.Requests.Load()
		p.Instances.Find(t.Context(), refs)
		if again := w.Requests.Load() - before; again != 3 {
			t.Errorf("%d calls for all machines once more, want 3", again)
		}
		stop()
	}
	if calls[0] != calls[1] || calls[0] > 20 {
		t.Errorf("%v calls", calls)
	}
}

// A vCenter that is down, or shows nothing, deletes no Node: "not found" is its own word about one of many.
func TestDoubtIsNotFound(t *testing.T) {
	w := start(t, 1)
	i, err := w.MakeInstance(t.Context(), "node")
	if err != nil {
		t.Fatal(err)
	}
	p, stop, err := w.Setup().New(cloud.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	unknown := cloud.InstanceRef{NodeName: "none", ProviderID: w.UnknownID()}
	want := func(what string, kind cloud.Kind, ref cloud.InstanceRef) {
		t.Helper()
		_, err := p.Instances.Get(t.Context(), ref)
		if cloud.KindOf(err) != kind || err == nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	want("another machine is there", cloud.KindNotFound, unknown)
	recover := w.Down()
	want("down", cloud.KindUnavailable, unknown)
	want("down", cloud.KindUnavailable, i.Ref)
	recover()
	if err := w.RemoveAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("it shows no machine at all", cloud.KindUnavailable, i.Ref)
}
