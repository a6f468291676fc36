package api_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
)

// seven makes more machines than are searched one by one.
func seven(t *testing.T) (*sim.VCenter, cloud.Instances, []cloud.InstanceRef) {
	t.Helper()
	v, err := sim.New(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	p, _, err := vsphere.New(t.Context(), v.Config(), cloud.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var refs []cloud.InstanceRef
	for n := range 7 {
		m, err := v.MakeMachine(t.Context(), fmt.Sprint("node-", n))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, cloud.InstanceRef{NodeName: m.Name, ProviderID: "vsphere://" + m.UUID})
	}
	return v, p.Instances, refs
}

func wantAll(t *testing.T, i cloud.Instances, refs []cloud.InstanceRef) {
	t.Helper()
	for n, r := range i.Find(t.Context(), refs) {
		if r.Err != nil || r.Value.Name != refs[n].NodeName {
			t.Errorf("%s: %+v, %v", refs[n].NodeName, r.Value, r.Err)
		}
	}
}

// A session that ends takes its views with it, which is nobody's concern: whether it is noticed by a read of all or of known ones.
func TestSessionsEndAmidLooks(t *testing.T) {
	v, instances, refs := seven(t)
	byName := make([]cloud.InstanceRef, len(refs))
	for n, r := range refs {
		byName[n] = cloud.InstanceRef{NodeName: r.NodeName}
	}
	for _, looks := range [][]cloud.InstanceRef{byName, byName, refs, byName} {
		wantAll(t, instances, looks)
		if err := v.EndSessions(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wantAll(t, instances, byName)
}

// What was seen is only a hint: two machines with a UUID are told as two, each time.
func TestCopiesAreToldEachTime(t *testing.T) {
	v, instances, refs := seven(t)
	uuid := func(n int) string { return refs[n].ProviderID[len("vsphere://"):] }
	if err := v.ChangeUUID(t.Context(), uuid(1), uuid(0)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		found := instances.Find(t.Context(), refs)
		if err := found[0].Err; cloud.KindOf(err) != cloud.KindConflict {
			t.Errorf("two have the UUID: %+v, %v", found[0].Value, err)
		}
		if err := found[2].Err; err != nil {
			t.Error(err)
		}
	}
}

// The machines of several datacenters are read together.
func TestDatacentersAreReadTogether(t *testing.T) {
	v, _, refs := seven(t)
	path := filepath.Join(t.TempDir(), "vsphere.conf")
	if err := os.WriteFile(path, []byte(strings.Replace(v.ConfigIPv4(), "global:\n", "global:\n  datacenters: [DC0, /DC1]\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _, err := vsphere.New(t.Context(), path, cloud.Options{})
	if err != nil {
		t.Fatal(err)
	}
	byName := make([]cloud.InstanceRef, len(refs))
	for n, r := range refs {
		byName[n] = cloud.InstanceRef{NodeName: r.NodeName}
	}
	wantAll(t, p.Instances, byName)
	before := v.Requests.Load()
	wantAll(t, p.Instances, byName)
	if n := v.Requests.Load() - before; n != 3 {
		t.Errorf("%d calls, want 3: one for the datacenters, one for what leads to machines, one for those of Nodes", n)
	}
}
