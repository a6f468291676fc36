package compute

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

type serverRequest struct {
	Server *struct {
		Name             *string           `json:"name"`
		FlavorRef        json.RawMessage   `json:"flavorRef"`
		ImageRef         string            `json:"imageRef"`
		AvailabilityZone string            `json:"availability_zone"`
		Metadata         map[string]string `json:"metadata"`
		Networks         json.RawMessage   `json:"networks"`
		AccessIPv4       *string           `json:"accessIPv4"`
		AccessIPv6       *string           `json:"accessIPv6"`
		Description      *string           `json:"description"`
		Tags             []string          `json:"tags"`
		Hostname         string            `json:"hostname"`
		AdminPass        string            `json:"adminPass"`
		SecurityGroups   []struct {
			Name string `json:"name"`
		} `json:"security_groups"`
		BlockDevices []json.RawMessage `json:"block_device_mapping_v2"`
	} `json:"server"`
}

// nic is one entry of a new server's networks.
type nic struct {
	UUID    string `json:"uuid"`
	Port    string `json:"port"`
	FixedIP string `json:"fixed_ip"`
}

// createServer is POST /servers.
func (s *Nova) createServer(c *core.Call) (*core.Reply, error) {
	var req serverRequest
	if json.Unmarshal(c.Body, &req) != nil || req.Server == nil {
		return nil, dialect.BadInput("Malformed request body")
	}
	in := req.Server
	var flavorRef string
	switch {
	case in.Name == nil:
		return nil, dialect.BadInput("Invalid input for field/attribute server. 'name' is a required property")
	case in.FlavorRef == nil:
		return nil, dialect.BadInput("Invalid input for field/attribute server. 'flavorRef' is a required property")
	case json.Unmarshal(in.FlavorRef, &flavorRef) != nil:
		flavorRef = string(in.FlavorRef) // a number is taken too
	}
	if c.Micro >= 37 && in.Networks == nil {
		return nil, dialect.BadInput("Invalid input for field/attribute server. 'networks' is a required property")
	}
	if in.ImageRef == "" && len(in.BlockDevices) == 0 {
		return nil, dialect.BadInput("Missing imageRef attribute")
	}
	i := slices.IndexFunc(s.flavors, func(f *flavor) bool { return f.id == flavorRef })
	if i < 0 {
		return nil, dialect.BadInput("Flavor %s could not be found.", flavorRef)
	}
	if in.ImageRef != "" && !slices.ContainsFunc(s.images, func(m image) bool { return m.id == in.ImageRef }) {
		return nil, dialect.BadInput("Can not find requested image")
	}
	if in.AvailabilityZone == "" {
		in.AvailabilityZone = s.Zones[0]
	} else if !slices.Contains(s.Zones, in.AvailabilityZone) {
		return nil, dialect.BadInput("The requested availability zone is not available")
	}
	v := &server{
		id: core.NewID(), name: *in.Name, hostname: in.Hostname, projectID: c.Project(), userID: c.UserID(), zone: in.AvailabilityZone,
		imageID: in.ImageRef, flavor: s.flavors[i], metadata: in.Metadata, description: in.Description, tags: in.Tags,
		adminPass: in.AdminPass,
	}
	for _, g := range in.SecurityGroups {
		v.securityGroups = append(v.securityGroups, g.Name)
	}
	dialect.SetText(&v.accessIPv4, in.AccessIPv4)
	dialect.SetText(&v.accessIPv6, in.AccessIPv6)
	if err := s.attachPorts(v, in.Networks); err != nil {
		return nil, err
	}
	s.register(v)
	v.vmState, v.taskState = "building", "scheduling"
	s.change(v, func() { v.vmState, v.taskState, v.launched = "active", "", time.Now().UTC().Truncate(time.Second) })
	groups := []core.Object{}
	for _, g := range v.securityGroups {
		groups = append(groups, core.Object{"name": g})
	}
	rep := &core.Reply{Status: http.StatusAccepted, Body: core.Object{"server": core.Object{
		"id": v.id, "links": computeLinks(c, "servers", v.id), "OS-DCF:diskConfig": "MANUAL", "security_groups": groups, "adminPass": v.adminPass,
	}}}
	return rep.Set("Location", c.URL("/v2.1/servers/"+v.id)), nil
}

// register completes a new server and adds it; lock held.
func (s *Nova) register(v *server) {
	s.built++
	v.number = s.built
	v.created = time.Now().UTC().Truncate(time.Second)
	v.updated = v.created
	v.reservedAs = "r-" + core.NewHex()[:8]
	if v.hostname == "" {
		v.hostname = v.name
	}
	if v.adminPass == "" {
		v.adminPass = core.RandomText(9)
	}
	if v.securityGroups == nil {
		v.securityGroups = []string{"default"}
	}
	v.metadata = maps.Clone(v.metadata)
	s.servers = append(s.servers, v)
	s.byID[v.id] = v
}

// attachPorts makes or takes the ports that a new server's networks ask for.
func (s *Nova) attachPorts(v *server, raw json.RawMessage) error {
	var word string
	if json.Unmarshal(raw, &word) == nil && word == "none" {
		return nil
	}
	nics := []nic{{}}
	if raw != nil && word == "" {
		nics = nil
		if json.Unmarshal(raw, &nics) != nil {
			return dialect.BadInput("Invalid input for field/attribute networks.")
		}
	}
	for _, n := range nics {
		if _, err := s.attachPort(v, n); err != nil {
			s.ports.DeleteOf(v.id)
			return err
		}
	}
	return nil
}

func (s *Nova) attachPort(v *server, n nic) (core.Port, error) {
	if n.Port != "" {
		p, err := s.ports.Bind(n.Port, v.id, v.zone)
		if err != nil {
			return p, refusal(err, "Port id "+n.Port+" could not be found.")
		}
		return p, nil
	}
	if n.UUID != "" {
		if _, known := s.ports.NetworkName(n.UUID); !known {
			return core.Port{}, dialect.BadInput("Network %s could not be found.", n.UUID)
		}
	}
	wish := core.PortWish{DeviceID: v.id, NetworkID: n.UUID, Zone: v.zone, ProjectID: v.projectID}
	if n.FixedIP != "" {
		if err := wish.FixedIP.UnmarshalText([]byte(n.FixedIP)); err != nil {
			return core.Port{}, dialect.BadInput("Invalid input for field/attribute fixed_ip. Value: %s.", n.FixedIP)
		}
	}
	p, err := s.ports.Create(wish)
	if err != nil {
		return p, refusal(err, err.Error())
	}
	return p, nil
}

// refusal is Nova's word for what Neutron refused: a 400 with the message that goes with
// not found, with conflict its own.
func refusal(err error, message string) error {
	var e *core.Error
	if errors.As(err, &e) && e.Status != http.StatusNotFound {
		message = e.Message
	}
	return dialect.BadInput("%s", message)
}

// change lets fn happen to the server after the delay of transient states, unless its state
// was changed otherwise meanwhile; lock held.
func (s *Nova) change(v *server, fn func()) {
	v.transition++
	n := v.transition
	s.After(s.StateDelay, func() {
		if v.transition == n {
			fn()
			v.updated = time.Now().UTC().Truncate(time.Second)
		}
	})
}

// setState gives the server a state at once; lock held.
func (s *Nova) setState(v *server, vmState string) {
	v.transition++
	v.vmState, v.taskState = vmState, ""
	v.updated = time.Now().UTC().Truncate(time.Second)
}

func (s *Nova) updateServer(c *core.Call) (*core.Reply, error) {
	v, err := s.pathServer(c)
	if err != nil {
		return nil, err
	}
	var req serverRequest
	if json.Unmarshal(c.Body, &req) != nil || req.Server == nil {
		return nil, dialect.BadInput("Malformed request body")
	}
	in := req.Server
	dialect.SetText(&v.name, in.Name)
	dialect.SetText(&v.accessIPv4, in.AccessIPv4)
	dialect.SetText(&v.accessIPv6, in.AccessIPv6)
	if in.Description != nil {
		v.description = in.Description
	}
	v.updated = time.Now().UTC().Truncate(time.Second)
	return core.OK(core.Object{"server": s.serverBody(c, v, false)})
}

func (s *Nova) deleteServer(c *core.Call) (*core.Reply, error) {
	v, err := s.pathServer(c)
	if err != nil {
		return nil, err
	}
	if v.taskState != "deleting" {
		v.taskState = "deleting"
		s.change(v, func() { s.remove(v) })
	}
	return core.NoContent()
}

// remove ends a server and its ports; lock held.
func (s *Nova) remove(v *server) {
	s.setState(v, "deleted")
	v.terminated = time.Now().UTC()
	delete(s.byID, v.id)
	s.servers = slices.DeleteFunc(s.servers, func(x *server) bool { return x == v })
	s.gone = append(s.gone, v)
	s.ports.DeleteOf(v.id)
}

// serverTransition is what an action does: from one of the states, over a task, to a state.
type serverTransition struct {
	verb string
	from []string
	task string
	to   string
}

var serverActions = map[string]serverTransition{
	"os-start": {"start", []string{"stopped"}, "powering-on", "active"},
	"os-stop":  {"stop", []string{"active", "error"}, "powering-off", "stopped"},
	"reboot":   {"reboot", []string{"active", "stopped", "paused", "suspended", "error"}, "rebooting", "active"},
	"pause":    {"pause", []string{"active"}, "pausing", "paused"},
	"unpause":  {"unpause", []string{"paused"}, "unpausing", "active"},
	"suspend":  {"suspend", []string{"active"}, "suspending", "suspended"},
	"resume":   {"resume", []string{"suspended"}, "resuming", "active"},
}

// serverAction is POST /servers/{id}/action.
func (s *Nova) serverAction(c *core.Call) (*core.Reply, error) {
	var req map[string]json.RawMessage
	if json.Unmarshal(c.Body, &req) != nil || len(req) != 1 {
		return nil, dialect.BadInput("Malformed request body")
	}
	var name string
	for name = range req {
	}
	action, known := serverActions[name]
	if !known {
		return nil, dialect.BadInput("There is no such action: %s", name)
	}
	v, err := s.pathServer(c)
	if err != nil {
		return nil, err
	}
	if v.taskState != "" {
		return nil, core.Errorf(http.StatusConflict, "", "Cannot '%s' instance %s while it is in task_state %s", action.verb, v.id, v.taskState)
	}
	if !slices.Contains(action.from, v.vmState) {
		return nil, core.Errorf(http.StatusConflict, "", "Cannot '%s' instance %s while it is in vm_state %s", action.verb, v.id, v.vmState)
	}
	v.taskState = action.task
	s.change(v, func() { v.vmState, v.taskState = action.to, "" })
	return core.Answer(http.StatusAccepted, nil)
}

func (s *Nova) showMetadata(c *core.Call) (*core.Reply, error) {
	v, err := s.pathServer(c)
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{"metadata": dialect.NonNil(v.metadata)})
}

func (s *Nova) addMetadata(c *core.Call) (*core.Reply, error)     { return s.writeMetadata(c, true) }
func (s *Nova) replaceMetadata(c *core.Call) (*core.Reply, error) { return s.writeMetadata(c, false) }

func (s *Nova) writeMetadata(c *core.Call, keep bool) (*core.Reply, error) {
	v, err := s.pathServer(c)
	if err != nil {
		return nil, err
	}
	var req struct {
		Metadata map[string]string `json:"metadata"`
	}
	if json.Unmarshal(c.Body, &req) != nil || req.Metadata == nil {
		return nil, dialect.BadInput("Malformed request body")
	}
	if !keep || v.metadata == nil {
		v.metadata = map[string]string{}
	}
	maps.Copy(v.metadata, req.Metadata)
	return core.OK(core.Object{"metadata": v.metadata})
}

// metadataItem returns the server whose metadata has the path's key.
func (s *Nova) metadataItem(c *core.Call) (*server, error) {
	v, err := s.pathServer(c)
	if err != nil {
		return nil, err
	}
	if _, has := v.metadata[c.Param("key")]; !has {
		return nil, core.Errorf(http.StatusNotFound, "", "Metadata item was not found")
	}
	return v, nil
}

func (s *Nova) showMetadataItem(c *core.Call) (*core.Reply, error) {
	v, err := s.metadataItem(c)
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{"meta": core.Object{c.Param("key"): v.metadata[c.Param("key")]}})
}

func (s *Nova) deleteMetadataItem(c *core.Call) (*core.Reply, error) {
	v, err := s.metadataItem(c)
	if err != nil {
		return nil, err
	}
	delete(v.metadata, c.Param("key"))
	return core.NoContent()
}
