package openstack

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Nova is the simulated service.
type Nova struct {
	*Cloud
	ports    Ports
	owner    Owner
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

func computeMicro() *microRange {
	return &microRange{
		name: "compute", legacy: "X-OpenStack-Nova-API-Version", major: 2, min: 1, max: 93,
		malformed:  malformedVersion,
		outOfRange: func(v string) *apiError { return versionOutOfRange(v, "2.1", "2.93") },
	}
}

// newNova makes Nova with flavors and an image, and no servers.
func newNova(cloud *Cloud, ports Ports, owner Owner, maxLimit int) *Nova {
	cloud.zones = []string{"az1", "az2", "az3"}
	return &Nova{
		Cloud: cloud, ports: ports, owner: owner, maxLimit: maxLimit,
		byID:   map[string]*server{},
		images: []image{{id: newID(), name: "cirros"}},
		flavors: []*flavor{
			{id: newID(), name: "m1.tiny", vcpus: 1, ram: 512, disk: 1},
			{id: newID(), name: "m1.small", vcpus: 2, ram: 4096, disk: 20},
			{id: newID(), name: "m1.large", vcpus: 4, ram: 8192, disk: 80},
		},
	}
}

// service is Nova's part of the API.
func (s *Nova) service() *service {
	return &service{name: "compute", prefix: "/compute", errorBody: novaError("application/json; charset=UTF-8"), micro: computeMicro(), routes: s.routes, noRoute: htmlNotFound()}
}

func (s *Nova) routes(r *router) {
	r.open("GET /{$}", s.computeVersions)
	r.open("GET /v2.1", s.computeVersion)
	r.open("GET /v2.1/{$}", s.computeVersion)
	r.handle("GET /v2.1/servers", s.listServers)
	r.handle("GET /v2.1/servers/detail", s.listServers)
	r.handle("POST /v2.1/servers", s.createServer)
	r.handle("GET /v2.1/servers/{id}", s.showServer)
	r.handle("PUT /v2.1/servers/{id}", s.updateServer)
	r.handle("DELETE /v2.1/servers/{id}", s.deleteServer)
	r.handle("POST /v2.1/servers/{id}/action", s.serverAction)
	r.handle("GET /v2.1/servers/{id}/os-interface", s.listInterfaces)
	r.handle("POST /v2.1/servers/{id}/os-interface", s.attachInterface)
	r.handle("GET /v2.1/servers/{id}/os-interface/{port}", s.showInterface)
	r.handle("DELETE /v2.1/servers/{id}/os-interface/{port}", s.detachInterface)
	r.handle("GET /v2.1/servers/{id}/os-volume_attachments", s.listAttachments)
	r.handle("GET /v2.1/servers/{id}/ips", s.listIPs)
	r.handle("GET /v2.1/servers/{id}/metadata", s.showMetadata)
	r.handle("POST /v2.1/servers/{id}/metadata", s.addMetadata)
	r.handle("PUT /v2.1/servers/{id}/metadata", s.replaceMetadata)
	r.handle("GET /v2.1/servers/{id}/metadata/{key}", s.showMetadataItem)
	r.handle("DELETE /v2.1/servers/{id}/metadata/{key}", s.deleteMetadataItem)
	r.handle("GET /v2.1/flavors", s.listFlavors)
	r.handle("GET /v2.1/flavors/detail", s.listFlavors)
	r.handle("GET /v2.1/flavors/{id}", s.showFlavor)
	r.handle("GET /v2.1/flavors/{id}/os-extra_specs", s.showExtraSpecs)
	r.handle("GET /v2.1/os-availability-zone", s.listZones)
	r.handle("GET /v2.1/os-availability-zone/detail", s.listZonesDetail)
	r.handle("GET /v2.1/os-keypairs", s.listKeypairs)
	r.handle("GET /v2.1/limits", s.showComputeLimits)
}

func (s *Nova) computeVersions(c *call) (*reply, error) {
	c.version = ""
	doc := func(id, status, version, low, updated, path string) object {
		return object{"id": id, "status": status, "version": version, "min_version": low, "updated": updated,
			"links": []object{{"rel": "self", "href": c.url(path)}}}
	}
	return ok(object{"versions": []object{
		doc("v2.0", "SUPPORTED", "", "", "2011-01-21T11:33:21Z", "/v2/"),
		doc("v2.1", "CURRENT", "2.93", "2.1", "2013-07-23T11:33:21Z", "/v2.1/"),
	}})
}

func (s *Nova) computeVersion(c *call) (*reply, error) {
	return ok(object{"version": object{
		"id": "v2.1", "status": "CURRENT", "version": "2.93", "min_version": "2.1", "updated": "2013-07-23T11:33:21Z",
		"links": []object{{"rel": "self", "href": c.url("/v2.1/")},
			{"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"}},
		"media-types": []object{{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}},
	}})
}

func (s *Nova) flavorBody(c *call, f *flavor, detail bool) object {
	out := object{"id": f.id, "name": f.name, "links": computeLinks(c, "flavors", f.id)}
	if c.micro >= 55 {
		out["description"] = nil
	}
	if !detail {
		return out
	}
	maps.Copy(out, object{
		"ram": f.ram, "disk": f.disk, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": false,
		"vcpus": f.vcpus, "os-flavor-access:is_public": true, "rxtx_factor": json.Number("1.0"),
	})
	if c.micro >= 61 {
		out["extra_specs"] = nonNil(f.extraSpecs)
	}
	if c.micro >= 75 {
		out["swap"] = 0
	}
	return out
}

// computeLinks are Nova's two links of an object.
func computeLinks(c *call, kind, id string) []object {
	return []object{{"rel": "self", "href": c.url("/v2.1/" + kind + "/" + id)}, {"rel": "bookmark", "href": c.url("/" + kind + "/" + id)}}
}

func (s *Nova) listFlavors(c *call) (*reply, error) {
	limit, err := s.limit(c)
	if err != nil {
		return nil, err
	}
	items, _, found := page(s.flavors, func(f *flavor) string { return f.id }, c.query.Get("marker"), limit)
	if !found {
		return nil, badInput("marker [%s] not found", c.query.Get("marker"))
	}
	out := []object{}
	for _, f := range items {
		out = append(out, s.flavorBody(c, f, c.path == "/flavors/detail"))
	}
	body := object{"flavors": out}
	if len(items) > 0 && len(items) == limit {
		body["flavors_links"] = nextLink(c, items[len(items)-1].id)
	}
	return ok(body)
}

func (s *Nova) pathFlavor(c *call) (*flavor, error) {
	id := c.param("id")
	i := slices.IndexFunc(s.flavors, func(f *flavor) bool { return f.id == id })
	if i < 0 {
		return nil, errorf(http.StatusNotFound, "", "Flavor %s could not be found.", id)
	}
	return s.flavors[i], nil
}

func (s *Nova) showFlavor(c *call) (*reply, error) {
	f, err := s.pathFlavor(c)
	if err != nil {
		return nil, err
	}
	return ok(object{"flavor": s.flavorBody(c, f, true)})
}

func (s *Nova) showExtraSpecs(c *call) (*reply, error) {
	f, err := s.pathFlavor(c)
	if err != nil {
		return nil, err
	}
	return ok(object{"extra_specs": nonNil(f.extraSpecs)})
}

func (s *Nova) listZones(*call) (*reply, error) {
	out := []object{}
	for _, z := range s.zones {
		out = append(out, object{"zoneName": z, "zoneState": object{"available": true}, "hosts": nil})
	}
	return ok(object{"availabilityZoneInfo": out})
}

func (s *Nova) listZonesDetail(c *call) (*reply, error) {
	if !c.admin() {
		return nil, errorf(http.StatusForbidden, "", "Policy doesn't allow os_compute_api:os-availability-zone:detail to be performed.")
	}
	out := []object{}
	for _, z := range s.zones {
		service := object{"available": true, "active": true, "updated_at": time.Now().UTC().Format(novaTime)}
		out = append(out, object{"zoneName": z, "zoneState": object{"available": true}, "hosts": object{"compute-" + z: object{"nova-compute": service}}})
	}
	return ok(object{"availabilityZoneInfo": out})
}

func (s *Nova) listKeypairs(*call) (*reply, error) { return ok(object{"keypairs": []object{}}) }

func (s *Nova) showComputeLimits(c *call) (*reply, error) {
	n, cores, ram := 0, 0, 0
	for _, v := range s.servers {
		if v.projectID == c.project() {
			n, cores, ram = n+1, cores+v.flavor.vcpus, ram+v.flavor.ram
		}
	}
	return ok(object{"limits": object{"rate": []object{}, "absolute": object{
		"maxTotalInstances": -1, "maxTotalCores": -1, "maxTotalRAMSize": -1, "maxServerMeta": -1, "maxImageMeta": -1, "maxPersonality": 5,
		"maxPersonalitySize": 10240, "maxTotalKeypairs": 100, "maxServerGroups": -1, "maxServerGroupMembers": -1, "maxTotalFloatingIps": -1,
		"maxSecurityGroups": -1, "maxSecurityGroupRules": -1, "totalFloatingIpsUsed": 0, "totalSecurityGroupsUsed": 0, "totalServerGroupsUsed": 0,
		"totalInstancesUsed": n, "totalCoresUsed": cores, "totalRAMUsed": ram,
	}}})
}

// limit is the page size that the query asks for, at most maxLimit.
func (s *Nova) limit(c *call) (int, error) {
	text := c.query.Get("limit")
	if !c.query.Has("limit") || text == "" {
		return s.maxLimit, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, badInput("Invalid input for query parameters limit. Value: %s. '%s' does not match '^[0-9]*$'", text, text)
	}
	return min(int(n), s.maxLimit), nil
}
