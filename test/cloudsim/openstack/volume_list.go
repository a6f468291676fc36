package openstack

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
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
func (s *Cinder) listVolumes(c *call) (*reply, error) {
	limit, err := s.volumeLimit(c)
	if err != nil {
		return nil, err
	}
	all, err := s.filterVolumes(c)
	if err != nil {
		return nil, err
	}
	marker := c.query.Get("marker")
	items, _, found := page(all, func(v *volume) string { return v.id }, marker, limit)
	if !found {
		return nil, errorf(http.StatusNotFound, "", "Volume %s could not be found.", marker)
	}
	out := make([]object, 0, len(items))
	for _, v := range items {
		if c.path == "/volumes/detail" {
			out = append(out, s.volumeBody(c, v, true))
		} else {
			out = append(out, object{"id": v.id, "name": v.name, "links": volumeLinks(c, v.id)})
		}
	}
	body := object{"volumes": out}
	if len(items) > 0 && len(items) == limit {
		body["volumes_links"] = nextLink(c, items[len(items)-1].id)
	}
	if withCount, err := strconv.ParseBool(c.query.Get("with_count")); err == nil && withCount && c.micro >= 45 {
		body["count"] = len(all)
	}
	return ok(body)
}

func (s *Cinder) volumeLimit(c *call) (int, error) {
	text := c.query.Get("limit")
	if text == "" {
		return s.maxLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, badInput("limit param must be an integer")
	}
	if n < 0 {
		return 0, badInput("limit param must be positive")
	}
	return min(n, s.maxLimit), nil
}

// filterVolumes are the volumes that the query selects, newest first unless sorted otherwise.
func (s *Cinder) filterVolumes(c *call) ([]*volume, error) {
	all := c.admin() && allTenants(c)
	metadata := metadataFilter(c.query.Get("metadata"))
	var out []*volume
	for _, v := range slices.Backward(s.volumes) {
		if !all && v.projectID != c.project() {
			continue
		}
		keep := true
		for k, get := range volumeFilters {
			keep = keep && (!c.query.Has(k) || get(v) == c.query.Get(k))
		}
		for k, want := range metadata {
			keep = keep && v.metadata[k] == want
		}
		if keep {
			out = append(out, v)
		}
	}
	keys := c.query.Get("sort")
	if k := c.query.Get("sort_key"); k != "" {
		keys = k + ":" + cmp.Or(c.query.Get("sort_dir"), "desc")
	}
	if keys == "" {
		return out, nil
	}
	for _, key := range slices.Backward(strings.Split(keys, ",")) {
		name, dir, _ := strings.Cut(key, ":")
		compare := volumeSortKeys[name]
		if compare == nil {
			return nil, badInput("Invalid input received: Invalid sort key")
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

func (s *Cinder) volumeTypeBody(c *call, list bool) object {
	out := object{"id": s.typeID, "name": volumeType, "is_public": true, "description": "Default Volume Type", "extra_specs": object{}}
	if list {
		out["os-volume-type-access:is_public"] = true
	}
	if c.admin() {
		out["qos_specs_id"] = nil
	}
	return out
}

func (s *Cinder) listVolumeTypes(c *call) (*reply, error) {
	return ok(object{"volume_types": []object{s.volumeTypeBody(c, true)}})
}

func (s *Cinder) isVolumeType(id string) bool { return id == s.typeID || id == "default" }

func (s *Cinder) showVolumeType(c *call) (*reply, error) {
	if id := c.param("id"); !s.isVolumeType(id) {
		return nil, errorf(http.StatusNotFound, "", "Volume type %s could not be found.", id)
	}
	return ok(object{"volume_type": s.volumeTypeBody(c, false)})
}

func (s *Cinder) showVolumeTypeSpecs(c *call) (*reply, error) {
	if id := c.param("id"); !s.isVolumeType(id) {
		return nil, errorf(http.StatusNotFound, "", "Volume type %s could not be found.", id)
	}
	return ok(object{"extra_specs": object{}})
}

func (s *Cinder) listVolumeZones(*call) (*reply, error) {
	out := []object{}
	for _, z := range s.zones {
		out = append(out, object{"zoneName": z, "zoneState": object{"available": true}})
	}
	return ok(object{"availabilityZoneInfo": out})
}

func (s *Cinder) showVolumeLimits(c *call) (*reply, error) {
	n, size := 0, 0
	for _, v := range s.volumes {
		if v.projectID == c.project() {
			n, size = n+1, size+v.size
		}
	}
	return ok(object{"limits": object{"rate": []object{}, "absolute": object{
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
	if !slices.Contains(s.zones, zone) {
		s.zones = append(s.zones, zone)
	}
	now := time.Now().UTC().Truncate(time.Second)
	v := &volume{id: newID(), name: name, status: "available", zone: zone, projectID: s.owner.ProjectID, userID: s.owner.UserID, size: 1, created: now, updated: now}
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

func (s *Cinder) snapshot(out *Snapshot) {
	for _, v := range s.volumes {
		out.Volumes = append(out.Volumes, Item{ID: v.id, Name: v.name, Info: v.status})
	}
}
