package compute

import (
	"encoding/json"
	"net/http"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

func interfaceBody(c *core.Call, p core.Port) core.Object {
	ips := []core.Object{}
	for _, f := range p.FixedIPs {
		ips = append(ips, core.Object{"subnet_id": f.SubnetID, "ip_address": f.IP.String()})
	}
	out := core.Object{"net_id": p.NetworkID, "port_id": p.ID, "mac_addr": p.MAC, "port_state": p.Status, "fixed_ips": ips}
	if c.Micro >= 70 {
		out["tag"] = nil
	}
	return out
}

func (s *Nova) listInterfaces(c *core.Call) (*core.Reply, error) {
	v, err := s.pathServer(c)
	if err != nil {
		return nil, err
	}
	out := []core.Object{}
	if v.vmState != "building" {
		for _, p := range s.ports.Of(v.id) {
			out = append(out, interfaceBody(c, p))
		}
	}
	return core.OK(core.Object{"interfaceAttachments": out})
}

// pathInterface is the path's port among the server's, nil when it is not among them.
func (s *Nova) pathInterface(c *core.Call) (*core.Port, error) {
	v, err := s.pathServer(c)
	if err != nil {
		return nil, err
	}
	for _, p := range s.ports.Of(v.id) {
		if p.ID == c.Param("port") {
			return &p, nil
		}
	}
	return nil, nil
}

func (s *Nova) showInterface(c *core.Call) (*core.Reply, error) {
	p, err := s.pathInterface(c)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, core.Errorf(http.StatusNotFound, "", "Port id %s could not be found.", c.Param("port"))
	}
	return core.OK(core.Object{"interfaceAttachment": interfaceBody(c, *p)})
}

// attachInterface is POST /servers/{id}/os-interface: a given port, or a new one on a network.
func (s *Nova) attachInterface(c *core.Call) (*core.Reply, error) {
	v, err := s.pathServer(c)
	if err != nil {
		return nil, err
	}
	var req struct {
		Attachment struct {
			PortID   string `json:"port_id"`
			NetID    string `json:"net_id"`
			FixedIPs []struct {
				IP string `json:"ip_address"`
			} `json:"fixed_ips"`
		} `json:"interfaceAttachment"`
	}
	if json.Unmarshal(c.Body, &req) != nil {
		return nil, dialect.BadInput("Malformed request body")
	}
	in := req.Attachment
	n := nic{UUID: in.NetID, Port: in.PortID}
	if len(in.FixedIPs) > 0 {
		n.FixedIP = in.FixedIPs[0].IP
	}
	if n.Port == "" && n.UUID == "" {
		return nil, dialect.BadInput("Multiple possible networks found, use a Network ID to be more specific.")
	}
	p, err := s.attachPort(v, n)
	if err != nil {
		if _, is := s.ports.Get(n.Port); n.Port != "" && !is {
			return nil, core.Errorf(http.StatusNotFound, "", "Port id %s could not be found.", n.Port)
		}
		return nil, err
	}
	return core.OK(core.Object{"interfaceAttachment": interfaceBody(c, p)})
}

// detachInterface is DELETE /servers/{id}/os-interface/{port}. A port that is not the server's is
// accepted too, as Nova does, which finds out later.
func (s *Nova) detachInterface(c *core.Call) (*core.Reply, error) {
	p, err := s.pathInterface(c)
	if err != nil {
		return nil, err
	}
	if p != nil {
		s.ports.Remove(p.ID)
	}
	return core.Answer(http.StatusAccepted, nil)
}
