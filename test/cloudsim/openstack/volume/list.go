package volume

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// volumeFilters are the list's filters; Cinder ignores others.
var volumeFilters = map[string]func(*volume) string{
	"name":              func(v *volume) string { return v.name },
	"status":            func(v *volume) string { return v.status },
	"availability_zone": func(v *volume) string { return v.zone },
}

var volumeSortKeys = map[string]func(a, b *volume) int{
	"created_at":        func(a, b *volume) int { return a.created.Compare(b.created) },
	"updated_at":        func(a, b *volume) int { return a.updated.Compare(b.updated) },
	"name":              func(a, b *volume) int { return cmp.Compare(a.name, b.name) },
	"id":                func(a, b *volume) int { return cmp.Compare(a.id, b.id) },
	"size":              func(a, b *volume) int { return cmp.Compare(a.size, b.size) },
	"status":            func(a, b *volume) int { return cmp.Compare(a.status, b.status) },
	"availability_zone": func(a, b *volume) int { return cmp.Compare(a.zone, b.zone) },
}

// listVolumes is GET /volumes and /volumes/detail.
func (s *Cinder) listVolumes(c *core.Call) (*core.Reply, error) {
	limit, err := s.volumeLimit(c)
	if err != nil {
		return nil, err
	}
	all, err := s.filterVolumes(c)
	if err != nil {
		return nil, err
	}
	marker := c.Query.Get("marker")
	items, _, found := core.Page(all, func(v *volume) string { return v.id }, marker, limit)
	if !found {
		return nil, core.Errorf(http.StatusNotFound, "", "Volume %s could not be found.", marker)
	}
	out := make([]core.Object, 0, len(items))
	for _, v := range items {
		if c.Path == "/volumes/detail" {
			out = append(out, s.volumeBody(c, v, true))
		} else {
			out = append(out, core.Object{"id": v.id, "name": v.name, "links": volumeLinks(c, v.id)})
		}
	}
	body := core.Object{"volumes": out}
	if len(items) > 0 && len(items) == limit {
		body["volumes_links"] = dialect.NextLink(c, items[len(items)-1].id)
	}
	if withCount, err := strconv.ParseBool(c.Query.Get("with_count")); err == nil && withCount && c.Micro >= 45 {
		body["count"] = len(all)
	}
	return core.OK(body)
}

func (s *Cinder) volumeLimit(c *core.Call) (int, error) {
	text := c.Query.Get("limit")
	if text == "" {
		return s.maxLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, dialect.BadInput("limit param must be an integer")
	}
	if n < 0 {
		return 0, dialect.BadInput("limit param must be positive")
	}
	return min(n, s.maxLimit), nil
}

// filterVolumes are the volumes that the query selects, newest first unless sorted otherwise.
func (s *Cinder) filterVolumes(c *core.Call) ([]*volume, error) {
	all := c.Admin() && dialect.AllTenants(c)
	metadata := metadataFilter(c.Query.Get("metadata"))
	var out []*volume
	for _, v := range slices.Backward(s.volumes) {
		if !all && v.projectID != c.Project() {
			continue
		}
		keep := true
		for k, get := range volumeFilters {
			keep = keep && (!c.Query.Has(k) || get(v) == c.Query.Get(k))
		}
		for k, want := range metadata {
			keep = keep && v.metadata[k] == want
		}
		if keep {
			out = append(out, v)
		}
	}
	keys := c.Query.Get("sort")
	if k := c.Query.Get("sort_key"); k != "" {
		keys = k + ":" + cmp.Or(c.Query.Get("sort_dir"), "desc")
	}
	if keys == "" {
		return out, nil
	}
	for _, key := range slices.Backward(strings.Split(keys, ",")) {
		name, dir, _ := strings.Cut(key, ":")
		compare := volumeSortKeys[name]
		if compare == nil {
			return nil, dialect.BadInput("Invalid input received: Invalid sort key")
		}
		slices.SortStableFunc(out, func(a, b *volume) int {
			if dir == "asc" {
				return compare(a, b)
			}
			return compare(b, a)
		})
	}
	return out, nil
}

// metadataFilter reads the filter's Python dictionary, whose quotes are single.
func metadataFilter(text string) map[string]string {
	var out map[string]string
	if json.Unmarshal([]byte(strings.ReplaceAll(text, "'", `"`)), &out) != nil {
		return nil
	}
	return out
}

func (s *Cinder) volumeTypeBody(c *core.Call, list bool) core.Object {
	out := core.Object{"id": s.typeID, "name": volumeType, "is_public": true, "description": "Default Volume Type", "extra_specs": core.Object{}}
	if list {
		out["os-volume-type-access:is_public"] = true
	}
	if c.Admin() {
		out["qos_specs_id"] = nil
	}
	return out
}

func (s *Cinder) listVolumeTypes(c *core.Call) (*core.Reply, error) {
	return core.OK(core.Object{"volume_types": []core.Object{s.volumeTypeBody(c, true)}})
}

func (s *Cinder) isVolumeType(id string) bool { return id == s.typeID || id == "default" }

func (s *Cinder) showVolumeType(c *core.Call) (*core.Reply, error) {
	if id := c.Param("id"); !s.isVolumeType(id) {
		return nil, core.Errorf(http.StatusNotFound, "", "Volume type %s could not be found.", id)
	}
	return core.OK(core.Object{"volume_type": s.volumeTypeBody(c, false)})
}

func (s *Cinder) showVolumeTypeSpecs(c *core.Call) (*core.Reply, error) {
	if id := c.Param("id"); !s.isVolumeType(id) {
		return nil, core.Errorf(http.StatusNotFound, "", "Volume type %s could not be found.", id)
	}
	return core.OK(core.Object{"extra_specs": core.Object{}})
}

func (s *Cinder) listVolumeZones(*core.Call) (*core.Reply, error) {
	out := []core.Object{}
	for _, z := range s.Zones {
		out = append(out, core.Object{"zoneName": z, "zoneState": core.Object{"available": true}})
	}
	return core.OK(core.Object{"availabilityZoneInfo": out})
}

func (s *Cinder) showVolumeLimits(c *core.Call) (*core.Reply, error) {
	n, size := 0, 0
	for _, v := range s.volumes {
		if v.projectID == c.Project() {
			n, size = n+1, size+v.size
		}
	}
	return core.OK(core.Object{"limits": core.Object{"rate": []core.Object{}, "absolute": core.Object{
		"maxTotalVolumes": -1, "maxTotalSnapshots": -1, "maxTotalVolumeGigabytes": -1, "maxTotalBackups": 10, "maxTotalBackupGigabytes": 1000,
		"totalVolumesUsed": n, "totalGigabytesUsed": size, "totalSnapshotsUsed": 0, "totalBackupsUsed": 0, "totalBackupGigabytesUsed": 0,
	}}})
}

// Volume is a volume as tests see it.
type Volume struct {
	ID, Name, Zone, Status string
	// Size is in GiB.
	Size     int
	Metadata map[string]string
}

// AddVolume makes an available volume of 1 GiB of the project k8s in the zone, which comes into
// being when it is unknown.
func (s *Cinder) AddVolume(name, zone string) Volume {
	s.Lock()
	defer s.Unlock()
	if !slices.Contains(s.Zones, zone) {
		s.Zones = append(s.Zones, zone)
	}
	now := time.Now().UTC().Truncate(time.Second)
	v := &volume{id: core.NewID(), name: name, status: "available", zone: zone, projectID: s.owner.ProjectID, userID: s.owner.UserID, size: 1, created: now, updated: now}
	s.volumes = append(s.volumes, v)
	return v.view()
}

func (v *volume) view() Volume {
	return Volume{ID: v.id, Name: v.name, Zone: v.zone, Status: v.status, Size: v.size, Metadata: maps.Clone(v.metadata)}
}

// Volumes returns all volumes in order of creation.
func (s *Cinder) Volumes() []Volume {
	s.Lock()
	defer s.Unlock()
	out := make([]Volume, len(s.volumes))
	for i, v := range s.volumes {
		out[i] = v.view()
	}
	return out
}

// DeleteVolume removes a volume at once; false when there is none.
func (s *Cinder) DeleteVolume(id string) bool {
	s.Lock()
	defer s.Unlock()
	return s.removeVolume(id)
}

// Snapshot adds what exists; the lock is held.
func (s *Cinder) Snapshot(out *core.Snapshot) {
	for _, v := range s.volumes {
		out.Volumes = append(out.Volumes, core.Item{ID: v.id, Name: v.name, Info: v.status})
	}
}
