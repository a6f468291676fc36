package vsphere_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
	world "github.com/isthmus-cloud/isthmus/test/conformance/vsphere"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/test/golden"
)

func start(t *testing.T, machines int) world.World {
	t.Helper()
	v, err := sim.New(t.Context(), t.TempDir(), machines)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return world.World{VCenter: v}
}

func TestSimulator(t *testing.T) {
	r := cloudtest.Run(t, start(t, 1).Setup())
	if r.Complete() && !t.Failed() { // else the name pattern has left features out, or the run says what is wrong
		golden.Compare(t, filepath.Join("testdata", "vcsim.golden"), r.Marshal())
	}
}

// All machines of a vCenter take the same calls, however many there are; once they are known, only those asked for are read.
func TestCallsDoNotGrowWithMachines(t *testing.T) {
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
		defer stop()
		calls, bytes := w.Requests.Load(), w.Bytes.Load()
		since := func() (_, _ int64) {
			c, b := calls, bytes
			calls, bytes = w.Requests.Load(), w.Bytes.Load()
			return calls - c, bytes - b
		}
		for _, r := range p.Instances.Find(t.Context(), refs) {
			if r.Err != nil || r.Value.Zone != "zone-a" || r.Value.Region != "region-a" {
				t.Fatalf("%+v, %v", r.Value, r.Err)
			}
		}
		if n, _ := since(); n != 16 { // two to log in, a view, all machines, those of Nodes, what they are in; two to log in, and eight, for a tag of each of two categories
			t.Errorf("%d calls to begin with %d machines a pool, want 16", n, machines)
		}
		p.Instances.Find(t.Context(), refs)
		if n, b := since(); n != 1 || b > 5000*10 {
			t.Errorf("%d calls and %d bytes for 10 machines of %d a pool once more, want 1 call, and no others read", n, b, machines)
		}
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

// Complaints 642 and 501: a machine that is in none of several vCenters is gone, but not while one of them is down or shows nothing,
// and not while the object that had the UUID is there, with another UUID.
func TestAllVCentersAreAsked(t *testing.T) {
	a, b := start(t, 1), start(t, 1)
	_, other, _ := strings.Cut(b.ConfigIPv4(), "vcenter:\n")
	other, _, _ = strings.Cut(other, "labels:")
	path := filepath.Join(t.TempDir(), "vsphere.conf")
	if err := os.WriteFile(path, []byte(strings.Replace(a.ConfigIPv4(), "vcenter:\n", "vcenter:\n"+strings.Replace(other, "  sim:", "  other:", 1), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _, err := vsphere.New(t.Context(), path, cloud.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var refs []cloud.InstanceRef
	for n, w := range []world.World{a, b} {
		i, err := w.MakeInstance(t.Context(), fmt.Sprint("node-", n))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, i.Ref)
	}
	unknown := cloud.InstanceRef{NodeName: "none", ProviderID: a.UnknownID()}
	want := func(what string, kinds ...cloud.Kind) {
		t.Helper()
		for n, ref := range append(slices.Clone(refs), unknown) {
			i, err := p.Instances.Get(t.Context(), ref)
			if cloud.KindOf(err) != kinds[n] || err == nil && i.Name != ref.NodeName {
				t.Errorf("%s: %s: %v, %v", what, ref.NodeName, i, err)
			}
		}
	}
	none := cloud.KindOf(nil)
	want("both are there", none, none, cloud.KindNotFound)
	undo := b.Down()
	want("the other is down", none, cloud.KindUnavailable, cloud.KindUnavailable)
	undo()
	eventually.Met(t, func() string { // one that answered slowly is left alone for a while
		_, err := p.Instances.Get(t.Context(), refs[1])
		if err != nil {
			return err.Error()
		}
		return ""
	})
	want("it is back", none, none, cloud.KindNotFound)
	uuid := strings.TrimPrefix(refs[1].ProviderID, "vsphere://")
	if err := b.ChangeUUID(t.Context(), uuid, strings.TrimPrefix(b.UnknownID(), "vsphere://")); err != nil {
		t.Fatal(err)
	}
	want("a machine has another UUID", none, cloud.KindConflict, cloud.KindNotFound)
	if err := b.RemoveAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("the other shows no machine", none, cloud.KindUnavailable, cloud.KindUnavailable)
}

// All volumes take the same calls, a hundred with one; what is not there is believed to be gone where others are shown.
func TestVolumesAreAskedTogether(t *testing.T) {
	w := start(t, 1)
	p, stop, err := w.Setup().New(cloud.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	gone := cloud.VolumeRef{ID: "0b1ee9c8-44ee-4a4f-9a0d-8d6d1d7b6a11"}
	if _, err := p.Volumes.Get(t.Context(), gone); cloud.KindOf(err) != cloud.KindUnavailable {
		t.Errorf("no volume is shown: %v", err)
	}
	refs := []cloud.VolumeRef{{ID: "[LocalDS_0] kubevols/a.vmdk"}}
	for range 20 {
		pv, _, err := w.MakeVolume(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, cloud.VolumeRef{ID: pv.Spec.CSI.VolumeHandle})
	}
	before := w.Requests.Load()
	for n, r := range p.Volumes.Find(t.Context(), refs) {
		if n > 0 && (r.Err != nil || !slices.Equal(r.Value.Zones, []string{"zone-a"}) || r.Value.Region != "region-a") {
			t.Errorf("%+v, %v", r.Value, r.Err)
		}
		if n == 0 && cloud.KindOf(r.Err) != cloud.KindInvalid { // each datacenter has one of that name
			t.Errorf("%+v, %v", r.Value, r.Err)
		}
	}
	if calls := w.Requests.Load() - before; calls != 2 {
		t.Errorf("%d calls for 20 volumes, want 2", calls)
	}
	if _, err := p.Volumes.Get(t.Context(), gone); !cloud.IsNotFound(err) {
		t.Errorf("others are shown: %v", err)
	}
}
