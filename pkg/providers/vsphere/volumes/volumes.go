// Package volumes answers where vSphere's volumes are: pkg/cloud's Volumes, of PersistentVolumes of the in-tree plugin and of the
// vSphere CSI driver.
//
// A volume is in the zones all of whose hosts can use its datastore, as a Node may be on any of them, or where there is none such, in
// those of which some can. It attaches nothing, and makes no
// labels: pkg/pv does.
package volumes

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/zones"
)

const (
	csiDriver = "csi.vsphere.vmware.com"
	// csiTopology with the name of the category of zones is the driver's topology key.
	csiTopology = "topology.csi.vmware.com/"
)

// Volumes answers for the volumes of one vCenter. It may be used concurrently.
type Volumes struct {
	c     *api.Client
	zones *zones.Reader
}

var _ cloud.Volumes = (*Volumes)(nil)

// New makes the volumes of a vCenter.
func New(c *api.Client, z *zones.Reader) *Volumes { return &Volumes{c: c, zones: z} }

// Sources implements cloud.Volumes.
func (v *Volumes) Sources() []cloud.VolumeSource {
	return []cloud.VolumeSource{
		{Field: "vsphereVolume", NameField: "volumePath"},
		{Field: "csi", Driver: csiDriver, NameField: "volumeHandle"},
	}
}

// Ref implements cloud.Volumes. In-tree volumes are paths, [datastore] folder/file.vmdk, as are the handles of those that were migrated
// to CSI; others are UUIDs of Cloud Native Storage. Its file volumes (file:…) are reached from anywhere.
func (v *Volumes) Ref(pv *corev1.PersistentVolume) (cloud.VolumeRef, bool, error) {
	var name, field string
	switch {
	case pv.Spec.VsphereVolume != nil:
		name, field = pv.Spec.VsphereVolume.VolumePath, "spec.vsphereVolume.volumePath"
	case pv.Spec.CSI != nil && pv.Spec.CSI.Driver == csiDriver:
		name, field = pv.Spec.CSI.VolumeHandle, "spec.csi.volumeHandle"
	default:
		return cloud.VolumeRef{}, false, nil
	}
	if name == cloud.VolumePlaceholder || pv.Spec.CSI != nil && strings.HasPrefix(name, "file:") {
		return cloud.VolumeRef{}, false, nil
	}
	if datastoreOf(name) == "" && (pv.Spec.CSI == nil || !isUUID(name)) {
		return cloud.VolumeRef{}, false, cloud.Errorf(cloud.KindInvalid, "%s %.100q is neither a path ([datastore] folder/file.vmdk) nor, of the CSI driver, a volume's UUID", field, name)
	}
	ref := cloud.VolumeRef{ID: name}
	if pv.Spec.CSI != nil && v.zones.On() {
		ref.TopologyKey = csiTopology + v.zones.Labels().Zone
	}
	return ref, true, nil
}

// datastoreOf is the name of the datastore in a path, empty where it is none.
func datastoreOf(path string) string {
	name, file, ok := strings.Cut(path, "] ")
	if name, bracket := strings.CutPrefix(name, "["); ok && bracket && strings.TrimSpace(file) != "" && !strings.ContainsAny(name, "[]") {
		return name
	}
	return ""
}

func isUUID(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }

// Find implements cloud.Volumes.
func (v *Volumes) Find(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	out := make([]cloud.Result[*cloud.Volume], len(refs))
	if len(refs) == 0 {
		return out
	}
	urls, failed := v.urls(ctx, refs)
	w, err := v.read(ctx)
	for n, ref := range refs {
		if out[n].Err = err; err != nil {
			continue
		}
		if out[n].Err = failed[ref.ID]; out[n].Err == nil {
			out[n].Value, out[n].Err = w.volume(ref.ID, urls[ref.ID])
		}
	}
	return out
}

// Get implements cloud.Volumes. What Cloud Native Storage does not know is believed to be gone only where it shows others.
func (v *Volumes) Get(ctx context.Context, ref cloud.VolumeRef) (*cloud.Volume, error) {
	found := v.Find(ctx, []cloud.VolumeRef{ref})[0]
	if cloud.IsNotFound(found.Err) && isUUID(ref.ID) {
		if err := v.c.ShowsVolumes(ctx); err != nil {
			return nil, err
		}
	}
	return found.Value, found.Err
}

// urls are those of the datastores of volumes of Cloud Native Storage, and why some have none.
func (v *Volumes) urls(ctx context.Context, refs []cloud.VolumeRef) (urls map[string]string, failed map[string]error) {
	var ids []string
	for _, ref := range refs {
		if isUUID(ref.ID) {
			ids = append(ids, ref.ID)
		}
	}
	slices.Sort(ids)
	urls, failed = map[string]string{}, map[string]error{}
	for chunk := range slices.Chunk(slices.Compact(ids), api.MaxVolumes) {
		found, err := v.c.CNSVolumes(ctx, chunk...)
		for _, id := range chunk {
			if urls[id] = found[id]; err != nil {
				failed[id] = err
			} else if _, there := found[id]; !there {
				failed[id] = cloud.Errorf(cloud.KindNotFound, "volume %s is none of Cloud Native Storage of %s", id, v.c.Place())
			}
		}
	}
	return urls, failed
}

// where is what is read to tell where volumes are.
type where struct {
	place  string
	stores []api.Datastore
	zones  map[zones.Place][]api.Ref // the hosts of each; none without categories for zones
}

func (v *Volumes) read(ctx context.Context) (*where, error) {
	w := &where{place: v.c.Place()}
	var err error
	if w.stores, err = v.c.Datastores(ctx); err != nil {
		return nil, err
	}
	if len(w.stores) == 0 {
		return nil, cloud.Errorf(cloud.KindUnavailable, "%s shows no datastore at all; has the user the right System.View where they are?", w.place)
	}
	if v.zones.On() {
		z, err := v.zones.Get(ctx)
		if err != nil {
			return nil, err
		}
		w.zones = z.Hosts()
	}
	return w, nil
}

// volume is the answer about a volume, by the URL of its datastore or by its path.
func (w *where) volume(id, url string) (*cloud.Volume, error) {
	name, what := datastoreOf(id), "URL "+url
	if name != "" {
		what = "name " + name
	}
	var found []*api.Datastore
	for i := range w.stores {
		if s := &w.stores[i]; name != "" && s.Name == name || name == "" && s.URL == url {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 0 && name != "":
		return nil, cloud.Errorf(cloud.KindNotFound, "volume %.200s: %s has no datastore of that name", id, w.place)
	case len(found) == 0:
		return nil, cloud.Errorf(cloud.KindInvalid, "volume %s is on a datastore (%s) that none of the datacenters of vsphere.conf has", id, what)
	case name != "" && slices.ContainsFunc(found, func(s *api.Datastore) bool { return s.URL != found[0].URL }):
		return nil, cloud.Errorf(cloud.KindInvalid, "volume %.200s: %s has %d datastores of that name; set datacenters in vsphere.conf to the one that is meant", id, w.place, len(found))
	}
	if w.zones == nil {
		return &cloud.Volume{ID: id}, nil
	}
	out := w.in(found)
	if len(out.Zones) == 0 {
		return nil, cloud.Errorf(cloud.KindInvalid, "volume %.200s: no host with tags of a zone and a region can use its datastore (%s): tag hosts, or what they are in", id, what)
	}
	out.ID = id
	return out, nil
}

// in is in which zones a datastore can be used: by all hosts of them, or where there is none such, by some.
func (w *where) in(mounts []*api.Datastore) *cloud.Volume {
	var all, some []zones.Place
	for at, hosts := range w.zones {
		n := 0
		for _, h := range hosts {
			if slices.ContainsFunc(mounts, func(s *api.Datastore) bool { return slices.Contains(s.Hosts, h) }) {
				n++
			}
		}
		if n > 0 {
			some = append(some, at)
		}
		if n == len(hosts) {
			all = append(all, at)
		}
	}
	if len(all) == 0 {
		all = some
	}
	out := &cloud.Volume{}
	regions := map[string]bool{}
	for _, at := range all {
		out.Zones, out.Region, regions[at.Region] = append(out.Zones, at.Zone), at.Region, true
	}
	slices.Sort(out.Zones)
	if out.Zones = slices.Compact(out.Zones); len(regions) > 1 {
		out.Region = "" // a volume has but one
	}
	return out
}
