package instances_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
)

// machines are a vCenter's with some that were made, and how they are named in provider IDs.
func machines(t *testing.T, count int) (*sim.VCenter, cloud.Instances, []cloud.InstanceRef) {
	t.Helper()
	v, err := sim.New(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	var refs []cloud.InstanceRef
	for n := range count {
		m, err := v.MakeMachine(t.Context(), fmt.Sprint("node-", n))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, cloud.InstanceRef{NodeName: m.Name, ProviderID: "vsphere://" + m.UUID})
	}
	return v, begin(t, v), refs
}

// begin is a provider that has seen nothing yet.
func begin(t *testing.T, v *sim.VCenter) cloud.Instances {
	t.Helper()
	p, _, err := vsphere.New(t.Context(), v.Config(), cloud.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Instances
}

// hide hides the properties of machines that tell which they are: of all, or so many.
func hide(v *sim.VCenter, count int) (undo func()) {
	return changed(v, func(b []byte) []byte {
		b = bytes.Replace(b, []byte("<name>config.uuid</name>"), []byte("<name>another</name>"), count)
		return bytes.Replace(b, []byte("<name>name</name>"), []byte("<name>another</name>"), count)
	})
}

// changed has a vCenter answer the truth but for a change of it.
func changed(v *sim.VCenter, change func([]byte) []byte) (undo func()) {
	return v.Lie(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		truth := httptest.NewRecorder()
		next.ServeHTTP(truth, r)
		maps.Copy(w.Header(), truth.Header())
		w.WriteHeader(truth.Code)
		_, _ = w.Write(change(truth.Body.Bytes())) // into the network
	})
}

func wantKind(t *testing.T, i cloud.Instances, ref cloud.InstanceRef, kind cloud.Kind) {
	t.Helper()
	if got, err := i.Get(t.Context(), ref); (err == nil) != (kind == cloud.KindOf(nil)) || err != nil && cloud.KindOf(err) != kind {
		t.Errorf("%+v, %v, want %v", got, err, kind)
	}
}

// What is not found is gone only where the vCenter shows other machines, with their properties.
func TestWhatIsNotFoundMayBeThere(t *testing.T) {
	v, instances, refs := machines(t, 1)
	unknown := cloud.InstanceRef{NodeName: "none", ProviderID: "vsphere://" + uuid.NewString()}
	wantKind(t, instances, unknown, cloud.KindNotFound)
	undo := hide(v, -1)
	wantKind(t, instances, unknown, cloud.KindUnavailable)
	wantKind(t, instances, refs[0], cloud.KindFailed) // the object is there
	undo()
	undo = hide(v, 1)
	wantKind(t, begin(t, v), unknown, cloud.KindFailed) // complaints 642 and 455: it may be the one whose files cannot be read
	wantKind(t, instances, unknown, cloud.KindNotFound) // that one is known to be another
	undo()
	wantKind(t, instances, refs[0], cloud.KindOf(nil))
	if err := v.RemoveAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantKind(t, instances, refs[0], cloud.KindUnavailable)
}

// A machine that its reader may not see any more, but is there, is not gone; not even after looks at all that lack it.
func TestMachineThatIsNotShownIsNotGone(t *testing.T) {
	v, instances, refs := machines(t, 2)
	uuid := []byte(refs[0].ProviderID[len("vsphere://"):])
	wantKind(t, instances, refs[0], cloud.KindOf(nil))
	found := []byte("<FindAllByUuidResponse")
	undo := changed(v, func(b []byte) []byte {
		if bytes.Contains(b, found) {
			return nothing
		}
		return bytes.ReplaceAll(b, uuid, []byte("00000000-0000-4000-8000-000000000000")) // as without any
	})
	for range 3 {
		wantKind(t, instances, refs[0], cloud.KindConflict)
	}
	undo()
	wantKind(t, instances, refs[0], cloud.KindOf(nil))
}

// Complaint 501: a machine that has another UUID now is not gone, and a Node with a provider ID is not its.
func TestMachineWithAnotherUUIDIsNotGone(t *testing.T) {
	v, instances, refs := machines(t, 2)
	for _, r := range instances.Find(t.Context(), refs) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if err := v.ChangeUUID(t.Context(), refs[0].ProviderID[len("vsphere://"):], uuid.NewString()); err != nil {
		t.Fatal(err)
	}
	wantKind(t, instances, refs[0], cloud.KindConflict)
	wantKind(t, instances, refs[1], cloud.KindOf(nil))
	if err := v.Delete(t.Context(), refs[1].ProviderID[len("vsphere://"):]); err != nil {
		t.Fatal(err)
	}
	wantKind(t, instances, refs[1], cloud.KindNotFound)
}

// nothing is what a search answers that finds none.
var nothing = []byte(`<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body><FindAllByUuidResponse xmlns="urn:vim25"></FindAllByUuidResponse></soapenv:Body></soapenv:Envelope>`)

// A search that finds nothing is not the vCenter's word: what it shows is.
func TestSearchesAreNoProof(t *testing.T) {
	v, instances, refs := machines(t, 1)
	found := []byte("<FindAllByUuidResponse")
	defer changed(v, func(b []byte) []byte {
		if bytes.Contains(b, found) {
			return nothing
		}
		return b
	})()
	wantKind(t, instances, refs[0], cloud.KindOf(nil))
}
