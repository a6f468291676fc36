package volume

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// Cinder is the simulated service. Its zones are Nova's.
type Cinder struct {
	*core.Cloud
	owner    core.Owner
	maxLimit int

	volumes     []*volume // in order of creation
	typeID      string
	serviceUUID string
}

type volume struct {
	id, name, status, zone string
	projectID, userID      string
	description            *string
	size                   int
	metadata               map[string]string
	created, updated       time.Time // updated is zero before the first change
}

// volumeType is the only volume type's name.
const volumeType = "__DEFAULT__"

func volumeMicro() *core.Micro {
	return &core.Micro{
		Name: "volume", Major: 3, Min: 0, Max: 70, Malformed: dialect.MalformedVersion,
		OutOfRange: func(v string) *core.Error { return dialect.VersionOutOfRange(v, "3.0", "3.70") },
	}
}

// New makes Cinder without volumes.
func New(cloud *core.Cloud, owner core.Owner, maxLimit int) *Cinder {
	return &Cinder{Cloud: cloud, owner: owner, maxLimit: maxLimit, typeID: core.NewID(), serviceUUID: core.NewID()}
}

// Service is Cinder's part of the API.
func (s *Cinder) Service() *core.Service {
	return &core.Service{Name: "volume", Prefix: "/volume", ErrorBody: dialect.NovaError("application/json"), Micro: volumeMicro(), Routes: s.routes, NoRoute: core.HTMLNotFound()}
}

func (s *Cinder) routes(r *core.Router) {
	r.Open("GET /{$}", s.volumeVersions)
	r.Open("GET /v3/{$}", s.volumeVersion)
	r.Open("GET /v3", s.volumeVersion)
	for pattern, h := range map[string]core.HandlerFunc{
		"GET /volumes":                   s.listVolumes,
		"GET /volumes/detail":            s.listVolumes,
		"POST /volumes":                  s.createVolume,
		"GET /volumes/{id}":              s.showVolume,
		"PUT /volumes/{id}":              s.updateVolume,
		"DELETE /volumes/{id}":           s.deleteVolume,
		"GET /types":                     s.listVolumeTypes,
		"GET /types/{id}":                s.showVolumeType,
		"GET /os-availability-zone":      s.listVolumeZones,
		"GET /limits":                    s.showVolumeLimits,
		"GET /snapshots":                 emptyList("snapshots"),
		"GET /snapshots/detail":          emptyList("snapshots"),
		"GET /attachments":               listVolumeAttachments,
		"GET /volumes/{id}/metadata":     s.showVolumeMetadata,
		"POST /volumes/{id}/action":      s.volumeAction,
		"GET /types/{id}/extra_specs":    s.showVolumeTypeSpecs,
		"GET /qos-specs":                 emptyList("qos_specs"),
		"GET /backups/detail":            emptyList("backups"),
		"GET /scheduler-stats/get_pools": emptyList("pools"),
	} {
		method, path, _ := strings.Cut(pattern, " ")
		r.Handle(method+" /v3/{project}"+path, inProject(h))
	}
}

func emptyList(key string) core.HandlerFunc {
	return func(*core.Call) (*core.Reply, error) { return core.OK(core.Object{key: []core.Object{}}) }
}

// listVolumeAttachments is there from 3.27 on.
func listVolumeAttachments(c *core.Call) (*core.Reply, error) {
	if c.Micro < 27 {
		return nil, core.Errorf(http.StatusNotFound, "", "The resource could not be found.")
	}
	return core.OK(core.Object{"attachments": []core.Object{}})
}

// inProject checks the path's project as Cinder does.
func inProject(h core.HandlerFunc) core.HandlerFunc {
	return func(c *core.Call) (*core.Reply, error) {
		p := c.Param("project")
		if !core.ProjectSegment.MatchString(p) {
			c.Version = ""
			return nil, core.HTMLNotFound()
		}
		if p != c.Project() {
			return nil, dialect.BadInput("Malformed request url")
		}
		return h(c)
	}
}

func (s *Cinder) volumeVersionsBody(c *core.Call) core.Object {
	return core.Object{"versions": []core.Object{{
		"id": "v3.0", "status": "CURRENT", "version": "3.70", "min_version": "3.0", "updated": "2022-08-31T00:00:00Z",
		"links": []core.Object{{"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"},
			{"rel": "self", "href": c.URL("/v3/")}},
		"media-types": []core.Object{{"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}},
	}}}
}

func (s *Cinder) volumeVersions(c *core.Call) (*core.Reply, error) {
	return core.Answer(http.StatusMultipleChoices, s.volumeVersionsBody(c))
}

func (s *Cinder) volumeVersion(c *core.Call) (*core.Reply, error) {
	return core.OK(s.volumeVersionsBody(c))
}

func volumeLinks(c *core.Call, id string) []core.Object {
	path := c.Project() + "/volumes/" + id
	return []core.Object{{"rel": "self", "href": c.URL("/v3/" + path)}, {"rel": "bookmark", "href": c.URL("/" + path)}}
}

// volumeBody is a volume; read is set where it is read, as opposed to just made or changed.
func (s *Cinder) volumeBody(c *core.Call, v *volume, read bool) core.Object {
	out := core.Object{
		"id": v.id, "status": v.status, "size": v.size, "availability_zone": v.zone, "created_at": v.created.Format(dialect.NovaTime),
		"updated_at": dialect.TimeOrNil(v.updated), "name": v.name, "description": v.description, "volume_type": volumeType, "snapshot_id": nil,
		"source_volid": nil, "metadata": dialect.NonNil(v.metadata), "links": volumeLinks(c, v.id), "user_id": v.userID, "bootable": "false",
		"encrypted": false, "replication_status": nil, "consistencygroup_id": nil, "multiattach": false, "attachments": []core.Object{},
	}
	if read {
		out["os-vol-tenant-attr:tenant_id"] = v.projectID
	}
	if read && c.Admin() {
		out["os-vol-host-attr:host"], out["os-vol-mig-status-attr:migstat"], out["os-vol-mig-status-attr:name_id"] = "cinder@fake#"+v.zone, nil, nil
		out["migration_status"] = nil
		if c.Micro >= 21 {
			out["provider_id"] = nil
		}
		if c.Micro >= 61 {
			out["cluster_name"] = nil
		}
	}
	if c.Micro >= 13 {
		out["group_id"] = nil
	}
	if c.Micro >= 48 {
		out["shared_targets"], out["service_uuid"] = false, s.serviceUUID
	}
	if c.Micro >= 63 {
		out["volume_type_id"] = s.typeID
	}
	if c.Micro >= 65 {
		out["consumes_quota"] = true
	}
	return out
}

func (s *Cinder) pathVolume(c *core.Call) (*volume, error) {
	id := c.Param("id")
	i := slices.IndexFunc(s.volumes, func(v *volume) bool { return v.id == id && c.Sees(v.projectID) })
	if i < 0 {
		return nil, core.Errorf(http.StatusNotFound, "", "Volume %s could not be found.", id)
	}
	return s.volumes[i], nil
}

func (s *Cinder) showVolume(c *core.Call) (*core.Reply, error) {
	v, err := s.pathVolume(c)
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{"volume": s.volumeBody(c, v, true)})
}

func (s *Cinder) showVolumeMetadata(c *core.Call) (*core.Reply, error) {
	v, err := s.pathVolume(c)
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{"metadata": dialect.NonNil(v.metadata)})
}

type volumeRequest struct {
	Volume *struct {
		Name             *string           `json:"name"`
		Description      *string           `json:"description"`
		Size             json.RawMessage   `json:"size"`
		AvailabilityZone string            `json:"availability_zone"`
		VolumeType       string            `json:"volume_type"`
		Metadata         map[string]string `json:"metadata"`
	} `json:"volume"`
}

func decodeVolume(c *core.Call) (*volumeRequest, error) {
	var req volumeRequest
	if json.Unmarshal(c.Body, &req) != nil {
		return nil, dialect.BadInput("Malformed request body")
	}
	if req.Volume == nil {
		return nil, dialect.BadInput("'volume' is a required property")
	}
	return &req, nil
}

var digits = regexp.MustCompile(`^[0-9]+$`)

func volumeSize(raw json.RawMessage) (int, error) {
	text := strings.Trim(string(raw), `"`)
	if text == "" || text == "null" {
		return 0, dialect.BadInput("The server could not comply with the request since it is either malformed or otherwise incorrect.")
	}
	if !digits.MatchString(strings.TrimPrefix(text, "-")) || strings.HasPrefix(string(raw), `"`) && !digits.MatchString(text) {
		return 0, dialect.BadInput("Invalid input for field/attribute size. Value: %s. '%s' does not match '^[0-9]+$'", text, text)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, dialect.BadInput("Invalid input for field/attribute size. Value: %s. %s is less than the minimum of 1", text, text)
	}
	return n, nil
}

// createVolume is POST /volumes. An unknown zone becomes the default one, as Cinder does where
// allow_availability_zone_fallback is set.
func (s *Cinder) createVolume(c *core.Call) (*core.Reply, error) {
	req, err := decodeVolume(c)
	if err != nil {
		return nil, err
	}
	in := req.Volume
	size, err := volumeSize(in.Size)
	if err != nil {
		return nil, err
	}
	if in.VolumeType != "" && in.VolumeType != volumeType && in.VolumeType != s.typeID {
		return nil, core.Errorf(http.StatusNotFound, "", "Volume type with name %s could not be found.", in.VolumeType)
	}
	if !slices.Contains(s.Zones, in.AvailabilityZone) {
		in.AvailabilityZone = s.Zones[0]
	}
	v := &volume{
		id: core.NewID(), status: "creating", zone: in.AvailabilityZone, projectID: c.Project(), userID: c.UserID(), size: size,
		description: in.Description, metadata: in.Metadata, created: time.Now().UTC(),
	}
	dialect.SetText(&v.name, in.Name)
	s.volumes = append(s.volumes, v)
	s.After(s.StateDelay, func() {
		if v.status == "creating" {
			v.status, v.updated = "available", time.Now().UTC().Truncate(time.Second)
			v.created = v.created.Truncate(time.Second)
		}
	})
	return core.Answer(http.StatusAccepted, core.Object{"volume": s.volumeBody(c, v, false)})
}

func (s *Cinder) updateVolume(c *core.Call) (*core.Reply, error) {
	v, err := s.pathVolume(c)
	if err != nil {
		return nil, err
	}
	req, err := decodeVolume(c)
	if err != nil {
		return nil, err
	}
	dialect.SetText(&v.name, req.Volume.Name)
	if req.Volume.Description != nil {
		v.description = req.Volume.Description
	}
	if req.Volume.Metadata != nil {
		v.metadata = maps.Clone(req.Volume.Metadata)
	}
	v.updated = time.Now().UTC().Truncate(time.Second)
	return core.OK(core.Object{"volume": s.volumeBody(c, v, false)})
}

func (s *Cinder) deleteVolume(c *core.Call) (*core.Reply, error) {
	v, err := s.pathVolume(c)
	if err != nil {
		return nil, err
	}
	if v.status != "deleting" {
		v.status = "deleting"
		s.After(s.StateDelay, func() { s.removeVolume(v.id) })
	}
	return &core.Reply{Status: http.StatusAccepted, ContentType: "text/html; charset=UTF-8"}, nil
}

// removeVolume ends a volume; lock held.
func (s *Cinder) removeVolume(id string) bool {
	n := len(s.volumes)
	s.volumes = slices.DeleteFunc(s.volumes, func(v *volume) bool { return v.id == id })
	return len(s.volumes) < n
}

// volumeAction knows the one action that needs no more than the volume: os-extend.
func (s *Cinder) volumeAction(c *core.Call) (*core.Reply, error) {
	v, err := s.pathVolume(c)
	if err != nil {
		return nil, err
	}
	var req struct {
		Extend *struct {
			NewSize int `json:"new_size"`
		} `json:"os-extend"`
	}
	if json.Unmarshal(c.Body, &req) != nil || req.Extend == nil {
		return nil, dialect.BadInput("There is no such action: %s", actionName(c.Body))
	}
	if req.Extend.NewSize <= v.size {
		return nil, dialect.BadInput("Invalid input received: New size for extend must be greater than current size. (current: %d, extended: %d).", v.size, req.Extend.NewSize)
	}
	v.size, v.updated = req.Extend.NewSize, time.Now().UTC().Truncate(time.Second)
	return &core.Reply{Status: http.StatusAccepted, ContentType: "text/html; charset=UTF-8"}, nil
}

// actionName is the first key of an action's body.
func actionName(body []byte) string {
	var req map[string]json.RawMessage
	if json.Unmarshal(body, &req) == nil {
		for name := range req {
			return name
		}
	}
	return ""
}
