package compute

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/netip"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

const secondTime = "2006-01-02T15:04:05Z"

var powerStates = map[string]int{"building": 0, "active": 1, "paused": 3, "stopped": 4, "suspended": 4, "shelved_offloaded": 4, "error": 0}

// status is what Nova makes of the instance's state and task.
func (v *server) status() string {
	switch v.vmState {
	case "building":
		return "BUILD"
	case "active":
		switch v.taskState {
		case "rebooting":
			return "REBOOT"
		case "rebooting_hard":
			return "HARD_REBOOT"
		}
		return "ACTIVE"
	case "stopped":
		return "SHUTOFF"
	case "paused":
		return "PAUSED"
	case "suspended":
		return "SUSPENDED"
	case "shelved_offloaded":
		return "SHELVED_OFFLOADED"
	case "deleted":
		return "DELETED"
	}
	return "ERROR"
}

// pathServer is the server of the path, if the caller may see it.
func (s *Nova) pathServer(c *core.Call) (*server, error) {
	id := c.Param("id")
	v := s.byID[id]
	if v == nil || !c.Sees(v.projectID) {
		return nil, core.Errorf(http.StatusNotFound, "", "Instance %s could not be found.", id)
	}
	return v, nil
}

func (s *Nova) showServer(c *core.Call) (*core.Reply, error) {
	v, err := s.pathServer(c)
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{"server": s.serverBody(c, v, false)})
}

// serverBody is a server as lists with details (list) and single reads show it.
func (s *Nova) serverBody(c *core.Call, v *server, list bool) core.Object {
	out := core.Object{
		"id": v.id, "name": v.name, "status": v.status(), "tenant_id": v.projectID, "user_id": v.userID,
		"metadata": dialect.NonNil(v.metadata), "hostId": v.hostID(), "image": "", "flavor": s.serverFlavor(c, v.flavor),
		"created": v.created.Format(secondTime), "updated": v.updated.Format(secondTime), "addresses": s.addresses(v, true),
		"accessIPv4": v.accessIPv4, "accessIPv6": v.accessIPv6, "links": computeLinks(c, "servers", v.id),
		"OS-DCF:diskConfig": "MANUAL", "OS-EXT-AZ:availability_zone": v.zone, "config_drive": "", "key_name": nil,
		"OS-SRV-USG:launched_at": dialect.TimeOrNil(v.launched), "OS-SRV-USG:terminated_at": dialect.TimeOrNil(v.terminated),
		"OS-EXT-STS:task_state": textOrNil(v.taskState), "OS-EXT-STS:vm_state": v.vmState, "OS-EXT-STS:power_state": powerStates[v.vmState],
		"os-extended-volumes:volumes_attached": []core.Object{},
	}
	if v.imageID != "" {
		out["image"] = core.Object{"id": v.imageID, "links": []core.Object{{"rel": "bookmark", "href": c.URL("/images/" + v.imageID)}}}
	}
	if v.vmState != "building" {
		var groups []core.Object
		for _, g := range v.securityGroups {
			groups = append(groups, core.Object{"name": g})
		}
		out["security_groups"] = groups
	}
	switch v.status() {
	case "BUILD", "ACTIVE", "REBOOT", "HARD_REBOOT":
		out["progress"] = 0
	case "ERROR":
		out["fault"] = core.Object{"code": http.StatusInternalServerError, "created": v.updated.Format(secondTime), "message": "Build of instance " + v.id + " aborted"}
	}
	s.addVersioned(c, v, list, out)
	return out
}

// addVersioned adds what newer microversions and administrators get.
func (s *Nova) addVersioned(c *core.Call, v *server, list bool, out core.Object) {
	if c.Micro >= 9 {
		out["locked"] = false
	}
	if c.Micro >= 19 {
		out["description"] = v.description
	}
	if c.Micro >= 26 {
		tags := v.tags
		if tags == nil {
			tags = []string{}
		}
		out["tags"] = tags
	}
	if c.Micro >= 63 {
		out["trusted_image_certificates"] = nil
	}
	if c.Micro >= 71 && !list {
		out["server_groups"] = []string{}
	}
	if c.Micro >= 73 {
		out["locked_reason"] = nil
	}
	if c.Micro >= 90 {
		out["OS-EXT-SRV-ATTR:hostname"] = v.hostname
	}
	if !c.Admin() {
		return
	}
	host := any("compute-" + v.zone)
	if v.vmState == "building" {
		host = nil
	}
	out["OS-EXT-SRV-ATTR:host"], out["OS-EXT-SRV-ATTR:hypervisor_hostname"] = host, host
	out["OS-EXT-SRV-ATTR:instance_name"] = fmt.Sprintf("instance-%08x", v.number)
	if c.Micro >= 3 {
		maps.Copy(out, core.Object{
			"OS-EXT-SRV-ATTR:reservation_id": v.reservedAs, "OS-EXT-SRV-ATTR:launch_index": 0, "OS-EXT-SRV-ATTR:hostname": v.hostname,
			"OS-EXT-SRV-ATTR:kernel_id": "", "OS-EXT-SRV-ATTR:ramdisk_id": "", "OS-EXT-SRV-ATTR:root_device_name": "/dev/sda",
			"OS-EXT-SRV-ATTR:user_data": nil,
		})
	}
	if c.Micro >= 16 {
		out["host_status"] = "UP"
	}
}

// hostID is the hash of project and host that Nova shows.
func (v *server) hostID() string {
	if v.vmState == "building" || v.vmState == "shelved_offloaded" {
		return ""
	}
	sum := sha256.Sum224([]byte(v.projectID + "compute-" + v.zone))
	return hex.EncodeToString(sum[:])
}

func textOrNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// serverFlavor is the flavor inside a server: from 2.47 on its values without its id.
func (s *Nova) serverFlavor(c *core.Call, f *flavor) core.Object {
	if c.Micro < 47 {
		return core.Object{"id": f.id, "links": []core.Object{{"rel": "bookmark", "href": c.URL("/flavors/" + f.id)}}}
	}
	return core.Object{"vcpus": f.vcpus, "ram": f.ram, "disk": f.disk, "ephemeral": 0, "swap": 0, "original_name": f.name, "extra_specs": dialect.NonNil(f.extraSpecs)}
}

// addresses are the server's by network, from its ports; none while it is being built.
func (s *Nova) addresses(v *server, extended bool) map[string][]core.Object {
	out := map[string][]core.Object{}
	if v.vmState == "building" || v.vmState == "deleted" {
		return out
	}
	add := func(p core.Port, ip netip.Addr, kind string) {
		version := 4
		if ip.Is6() {
			version = 6
		}
		a := core.Object{"version": version, "addr": ip.String()}
		if extended {
			a["OS-EXT-IPS:type"], a["OS-EXT-IPS-MAC:mac_addr"] = kind, p.MAC
		}
		out[p.NetworkName] = append(out[p.NetworkName], a)
	}
	for _, p := range s.ports.Of(v.id) {
		for _, f := range p.FixedIPs {
			add(p, f.IP, "fixed")
		}
		for _, f := range p.FloatingIPs {
			add(p, f.IP, "floating")
		}
	}
	return out
}

func (s *Nova) listIPs(c *core.Call) (*core.Reply, error) {
	v, err := s.pathServer(c)
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{"addresses": s.addresses(v, false)})
}

func (s *Nova) listAttachments(c *core.Call) (*core.Reply, error) {
	if _, err := s.pathServer(c); err != nil {
		return nil, err
	}
	return core.OK(core.Object{"volumeAttachments": []core.Object{}})
}
