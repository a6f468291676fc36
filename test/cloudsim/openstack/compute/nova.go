package compute

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// Nova is the simulated service.
type Nova struct {
	*core.Cloud
	ports    core.Ports
	owner    core.Owner
	maxLimit int

	servers []*server          // in order of creation; deleted ones are removed
	byID    map[string]*server // the same
	gone    []*server          // deleted, for lists with changes-since
	flavors []*flavor
	images  []image
	// built counts servers ever made, for instance names.
	built int
}

// server is one instance. Its ports are Neutron's.
type server struct {
	id, name, hostname    string
	projectID, userID     string
	zone, imageID         string
	flavor                *flavor
	metadata              map[string]string
	description           *string
	accessIPv4            string
	accessIPv6            string
	tags                  []string
	number                int
	created, updated      time.Time
	launched, terminated  time.Time
	vmState, taskState    string
	securityGroups        []string
	transition            int // grows with every change of state, so that outdated delayed ones are dropped
	adminPass, reservedAs string
}

type flavor struct {
	id, name         string
	vcpus, ram, disk int
	extraSpecs       map[string]string
}

type image struct{ id, name string }

func computeMicro() *core.Micro {
	return &core.Micro{
		Name: "compute", Legacy: "X-OpenStack-Nova-API-Version", Major: 2, Min: 1, Max: 93,
		Malformed:  dialect.MalformedVersion,
		OutOfRange: func(v string) *core.Error { return dialect.VersionOutOfRange(v, "2.1", "2.93") },
	}
}

// New makes Nova with flavors and an image, and no servers.
func New(cloud *core.Cloud, ports core.Ports, owner core.Owner, maxLimit int) *Nova {
	cloud.Zones = []string{"az1", "az2", "az3"}
	return &Nova{
		Cloud: cloud, ports: ports, owner: owner, maxLimit: maxLimit,
		byID:   map[string]*server{},
		images: []image{{id: core.NewID(), name: "cirros"}},
		flavors: []*flavor{
			{id: core.NewID(), name: "m1.tiny", vcpus: 1, ram: 512, disk: 1},
			{id: core.NewID(), name: "m1.small", vcpus: 2, ram: 4096, disk: 20},
			{id: core.NewID(), name: "m1.large", vcpus: 4, ram: 8192, disk: 80},
		},
	}
}

// Service is Nova's part of the API.
func (s *Nova) Service() *core.Service {
	return &core.Service{Name: "compute", Prefix: "/compute", ErrorBody: dialect.NovaError("application/json; charset=UTF-8"), Micro: computeMicro(), Routes: s.routes, NoRoute: core.HTMLNotFound()}
}

func (s *Nova) routes(r *core.Router) {
	r.Open("GET /{$}", s.computeVersions)
	r.Open("GET /v2.1", s.computeVersion)
	r.Open("GET /v2.1/{$}", s.computeVersion)
	r.Handle("GET /v2.1/servers", s.listServers)
	r.Handle("GET /v2.1/servers/detail", s.listServers)
	r.Handle("POST /v2.1/servers", s.createServer)
	r.Handle("GET /v2.1/servers/{id}", s.showServer)
	r.Handle("PUT /v2.1/servers/{id}", s.updateServer)
	r.Handle("DELETE /v2.1/servers/{id}", s.deleteServer)
	r.Handle("POST /v2.1/servers/{id}/action", s.serverAction)
	r.Handle("GET /v2.1/servers/{id}/os-interface", s.listInterfaces)
	r.Handle("POST /v2.1/servers/{id}/os-interface", s.attachInterface)
	r.Handle("GET /v2.1/servers/{id}/os-interface/{port}", s.showInterface)
	r.Handle("DELETE /v2.1/servers/{id}/os-interface/{port}", s.detachInterface)
	r.Handle("GET /v2.1/servers/{id}/os-volume_attachments", s.listAttachments)
	r.Handle("GET /v2.1/servers/{id}/ips", s.listIPs)
	r.Handle("GET /v2.1/servers/{id}/metadata", s.showMetadata)
	r.Handle("POST /v2.1/servers/{id}/metadata", s.addMetadata)
	r.Handle("PUT /v2.1/servers/{id}/metadata", s.replaceMetadata)
	r.Handle("GET /v2.1/servers/{id}/metadata/{key}", s.showMetadataItem)
	r.Handle("DELETE /v2.1/servers/{id}/metadata/{key}", s.deleteMetadataItem)
	r.Handle("GET /v2.1/flavors", s.listFlavors)
	r.Handle("GET /v2.1/flavors/detail", s.listFlavors)
	r.Handle("GET /v2.1/flavors/{id}", s.showFlavor)
	r.Handle("GET /v2.1/flavors/{id}/os-extra_specs", s.showExtraSpecs)
	r.Handle("GET /v2.1/os-availability-zone", s.listZones)
	r.Handle("GET /v2.1/os-availability-zone/detail", s.listZonesDetail)
	r.Handle("GET /v2.1/os-keypairs", s.listKeypairs)
	r.Handle("GET /v2.1/limits", s.showComputeLimits)
}

func (s *Nova) computeVersions(c *core.Call) (*core.Reply, error) {
	c.Version = ""
	doc := func(id, status, version, low, updated, path string) core.Object {
		return core.Object{"id": id, "status": status, "version": version, "min_version": low, "updated": updated,
			"links": []core.Object{{"rel": "self", "href": c.URL(path)}}}
	}
	return core.OK(core.Object{"versions": []core.Object{
		doc("v2.0", "SUPPORTED", "", "", "2011-01-21T11:33:21Z", "/v2/"),
		doc("v2.1", "CURRENT", "2.93", "2.1", "2013-07-23T11:33:21Z", "/v2.1/"),
	}})
}

func (s *Nova) computeVersion(c *core.Call) (*core.Reply, error) {
	return core.OK(core.Object{"version": core.Object{
		"id": "v2.1", "status": "CURRENT", "version": "2.93", "min_version": "2.1", "updated": "2013-07-23T11:33:21Z",
		"links": []core.Object{{"rel": "self", "href": c.URL("/v2.1/")},
			{"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"}},
		"media-types": []core.Object{{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}},
	}})
}

func (s *Nova) flavorBody(c *core.Call, f *flavor, detail bool) core.Object {
	out := core.Object{"id": f.id, "name": f.name, "links": computeLinks(c, "flavors", f.id)}
	if c.Micro >= 55 {
		out["description"] = nil
	}
	if !detail {
		return out
	}
	maps.Copy(out, core.Object{
		"ram": f.ram, "disk": f.disk, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": false,
		"vcpus": f.vcpus, "os-flavor-access:is_public": true, "rxtx_factor": json.Number("1.0"),
	})
	if c.Micro >= 61 {
		out["extra_specs"] = dialect.NonNil(f.extraSpecs)
	}
	if c.Micro >= 75 {
		out["swap"] = 0
	}
	return out
}

// computeLinks are Nova's two links of an object.
func computeLinks(c *core.Call, kind, id string) []core.Object {
	return []core.Object{{"rel": "self", "href": c.URL("/v2.1/" + kind + "/" + id)}, {"rel": "bookmark", "href": c.URL("/" + kind + "/" + id)}}
}

func (s *Nova) listFlavors(c *core.Call) (*core.Reply, error) {
	limit, err := s.limit(c)
	if err != nil {
		return nil, err
	}
	items, _, found := core.Page(s.flavors, func(f *flavor) string { return f.id }, c.Query.Get("marker"), limit)
	if !found {
		return nil, dialect.BadInput("marker [%s] not found", c.Query.Get("marker"))
	}
	out := []core.Object{}
	for _, f := range items {
		out = append(out, s.flavorBody(c, f, c.Path == "/flavors/detail"))
	}
	body := core.Object{"flavors": out}
	if len(items) > 0 && len(items) == limit {
		body["flavors_links"] = dialect.NextLink(c, items[len(items)-1].id)
	}
	return core.OK(body)
}

func (s *Nova) pathFlavor(c *core.Call) (*flavor, error) {
	id := c.Param("id")
	i := slices.IndexFunc(s.flavors, func(f *flavor) bool { return f.id == id })
	if i < 0 {
		return nil, core.Errorf(http.StatusNotFound, "", "Flavor %s could not be found.", id)
	}
	return s.flavors[i], nil
}

func (s *Nova) showFlavor(c *core.Call) (*core.Reply, error) {
	f, err := s.pathFlavor(c)
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{"flavor": s.flavorBody(c, f, true)})
}

func (s *Nova) showExtraSpecs(c *core.Call) (*core.Reply, error) {
	f, err := s.pathFlavor(c)
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{"extra_specs": dialect.NonNil(f.extraSpecs)})
}

func (s *Nova) listZones(*core.Call) (*core.Reply, error) {
	out := []core.Object{}
	for _, z := range s.Zones {
		out = append(out, core.Object{"zoneName": z, "zoneState": core.Object{"available": true}, "hosts": nil})
	}
	return core.OK(core.Object{"availabilityZoneInfo": out})
}

func (s *Nova) listZonesDetail(c *core.Call) (*core.Reply, error) {
	if !c.Admin() {
		return nil, core.Errorf(http.StatusForbidden, "", "Policy doesn't allow os_compute_api:os-availability-zone:detail to be performed.")
	}
	out := []core.Object{}
	for _, z := range s.Zones {
		service := core.Object{"available": true, "active": true, "updated_at": time.Now().UTC().Format(dialect.NovaTime)}
		out = append(out, core.Object{"zoneName": z, "zoneState": core.Object{"available": true}, "hosts": core.Object{"compute-" + z: core.Object{"nova-compute": service}}})
	}
	return core.OK(core.Object{"availabilityZoneInfo": out})
}

func (s *Nova) listKeypairs(*core.Call) (*core.Reply, error) {
	return core.OK(core.Object{"keypairs": []core.Object{}})
}

func (s *Nova) showComputeLimits(c *core.Call) (*core.Reply, error) {
	n, cores, ram := 0, 0, 0
	for _, v := range s.servers {
		if v.projectID == c.Project() {
			n, cores, ram = n+1, cores+v.flavor.vcpus, ram+v.flavor.ram
		}
	}
	return core.OK(core.Object{"limits": core.Object{"rate": []core.Object{}, "absolute": core.Object{
		"maxTotalInstances": -1, "maxTotalCores": -1, "maxTotalRAMSize": -1, "maxServerMeta": -1, "maxImageMeta": -1, "maxPersonality": 5,
		"maxPersonalitySize": 10240, "maxTotalKeypairs": 100, "maxServerGroups": -1, "maxServerGroupMembers": -1, "maxTotalFloatingIps": -1,
		"maxSecurityGroups": -1, "maxSecurityGroupRules": -1, "totalFloatingIpsUsed": 0, "totalSecurityGroupsUsed": 0, "totalServerGroupsUsed": 0,
		"totalInstancesUsed": n, "totalCoresUsed": cores, "totalRAMUsed": ram,
	}}})
}

// limit is the page size that the query asks for, at most maxLimit.
func (s *Nova) limit(c *core.Call) (int, error) {
	text := c.Query.Get("limit")
	if !c.Query.Has("limit") || text == "" {
		return s.maxLimit, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, dialect.BadInput("Invalid input for query parameters limit. Value: %s. '%s' does not match '^[0-9]*$'", text, text)
	}
	return min(int(n), s.maxLimit), nil
}
