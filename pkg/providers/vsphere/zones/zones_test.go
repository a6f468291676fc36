package zones

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/api"
)

func TestZones(t *testing.T) {
	ref := func(kind, value string) api.Ref { return api.Ref{Type: kind, Value: value} }
	host, cluster, folder, dc, pool, vm, vmFolder := ref("HostSystem", "h"), ref("ComputeResource", "c"), ref("Folder", "hf"), ref("Datacenter", "d"), ref("ResourcePool", "p"), ref("VirtualMachine", "v"), ref("Folder", "vf")
	parents := map[api.Ref]api.Ref{host: cluster, cluster: folder, folder: dc, pool: cluster, vmFolder: dc}
	for name, tt := range map[string]struct {
		zone, region map[api.Ref]string
		want         string
	}{
		"of the host":                      {zone: map[api.Ref]string{host: "z"}, region: map[api.Ref]string{host: "r"}, want: "z r"},
		"of what it is in":                 {zone: map[api.Ref]string{cluster: "z"}, region: map[api.Ref]string{dc: "r"}, want: "z r"},
		"what is farther away counts more": {zone: map[api.Ref]string{host: "near", cluster: "far"}, region: map[api.Ref]string{dc: "r"}, want: "far r"},
		"up to where both are known":       {zone: map[api.Ref]string{host: "near", dc: "far"}, region: map[api.Ref]string{cluster: "r"}, want: "near r"},
		"of the pool":                      {zone: map[api.Ref]string{pool: "z"}, region: map[api.Ref]string{pool: "r"}, want: "z r"},
		"of the machine and its folder":    {zone: map[api.Ref]string{vm: "z"}, region: map[api.Ref]string{vmFolder: "r"}, want: "z r"},
		"of one alone":                     {zone: map[api.Ref]string{host: "z"}, want: " "},
	} {
		z := &Zones{Parents: parents, Zone: tt.zone, Region: tt.region}
		gotZone, gotRegion := z.of([]api.Ref{host}, []api.Ref{pool}, []api.Ref{vm, vmFolder})
		if gotZone+" "+gotRegion != tt.want {
			t.Errorf("%s: %s %s", name, gotZone, gotRegion)
		}
	}
	loop := &Zones{Parents: map[api.Ref]api.Ref{host: cluster, cluster: host}}
	if zone, region := loop.of([]api.Ref{host}); zone+region != "" {
		t.Errorf("%s %s in a ring", zone, region)
	}
}
