package openstack_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

func listVolumes(t *testing.T, c *gophercloud.ServiceClient, opts volumes.ListOpts) []string {
	t.Helper()
	pages, err := volumes.List(c, opts).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := volumes.ExtractVolumes(pages)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, v := range list {
		out = append(out, v.Name)
	}
	return out
}

func TestVolumeLife(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{StateDelay: 30 * time.Millisecond})
	c := serviceClient(t, sim, openstack.NewBlockStorageV3)
	made, err := volumes.Create(t.Context(), c, volumes.CreateOpts{Name: "data", Size: 3, AvailabilityZone: "az2", Metadata: map[string]string{"a": "b"}}, nil).Extract()
	if err != nil || made.Status != "creating" {
		t.Fatalf("create: %+v, %v", made, err)
	}
	var got *volumes.Volume
	eventually.True(t, "volume is available", func() bool {
		if got, err = volumes.Get(t.Context(), c, made.ID).Extract(); err != nil {
			t.Fatal(err)
		}
		return got.Status == "available"
	})
	if got.AvailabilityZone != "az2" || got.Size != 3 || got.Metadata["a"] != "b" || got.UpdatedAt.IsZero() {
		t.Errorf("volume: %+v", got)
	}
	want := []ossim.Item{{ID: made.ID, Name: "data", Info: "available"}}
	if diff := cmp.Diff(want, sim.Snapshot().Volumes); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	if err := volumes.ExtendSize(t.Context(), c, made.ID, volumes.ExtendSizeOpts{NewSize: 5}).ExtractErr(); err != nil {
		t.Errorf("extend: %v", err)
	}
	if err := volumes.ExtendSize(t.Context(), c, made.ID, volumes.ExtendSizeOpts{NewSize: 5}).ExtractErr(); !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
		t.Errorf("extend to the same size: got %v, want 400", err)
	}
	if err := volumes.Delete(t.Context(), c, made.ID, nil).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "volume is gone", func() bool {
		_, err := volumes.Get(t.Context(), c, made.ID).Extract()
		return gophercloud.ResponseCodeIs(err, http.StatusNotFound)
	})
}

func TestVolumeList(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{MaxLimit: 2})
	for i := range 5 {
		sim.AddVolume("vol-"+strconv.Itoa(i), "az"+strconv.Itoa(1+i%2))
	}
	c := serviceClient(t, sim, openstack.NewBlockStorageV3)
	sim.ResetRequests()
	if diff := cmp.Diff([]string{"vol-4", "vol-3", "vol-2", "vol-1", "vol-0"}, listVolumes(t, c, volumes.ListOpts{})); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if n := sim.Count("volume", http.MethodGet); n != 3 {
		t.Errorf("%d requests for 2+2+1 volumes, want 3", n)
	}
	if diff := cmp.Diff([]string{"vol-1"}, listVolumes(t, c, volumes.ListOpts{Name: "vol-1"})); diff != "" {
		t.Errorf("by name (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"vol-0", "vol-1", "vol-2", "vol-3", "vol-4"}, listVolumes(t, c, volumes.ListOpts{Sort: "name:asc"})); diff != "" {
		t.Errorf("sorted (-want +got):\n%s", diff)
	}
	first := sim.Volumes()[0]
	if !sim.DeleteVolume(first.ID) || sim.DeleteVolume(first.ID) {
		t.Error("delete from Go")
	}
}
