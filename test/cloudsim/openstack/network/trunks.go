package network

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/network/resource"
)

// Trunks carry the networks of their subports to the parent's server as VLANs. Zed has them only
// where the service plugin trunk is loaded (Options.Trunks); what is here follows Neutron's source.

type trunk struct {
	resource.Entity
	parent  *port
	adminUp bool
	subs    []*subport
}

type subport struct {
	port *port
	typ  string
	vlan int
}

// subportOwner is the device_owner of subports.
const subportOwner = "trunk:subport"

// subPortWish is one subport in a body.
type subPortWish struct {
	PortID *string `json:"port_id"`
	Type   string  `json:"segmentation_type"`
	VLAN   *int    `json:"segmentation_id"`
}

func (s *Neutron) trunkKind() *resource.Kind {
	return &resource.Kind{
		One: "trunk", Many: "trunks", Path: "trunks",
		Attrs: []resource.Attr{
			{"port_id", resource.UUID, "c!"}, {"name", resource.Text, "cu"}, {"description", resource.Text, "cu"}, {"admin_state_up", resource.Boolean, "cu"},
			{"sub_ports", resource.Any, "c"}, {"tenant_id", resource.Text, "c"}, {"project_id", resource.Text, "c"}, {"id", resource.Any, ""}, {"status", resource.Any, ""},
		},
		Missing: resource.NotFound("TrunkNotFound", "Trunk %s could not be found."),
		All:     func() []resource.Item { return resource.ByID(s.trunks) },
		Get:     func(id string) (resource.Item, bool) { x, is := s.trunks[id]; return x, is },
		View:    trunkView,
		Create:  s.createTrunk,
		Update: func(_ *core.Call, x resource.Item, in dialect.Fields) error {
			t := x.(*trunk)
			t.Describe(in)
			t.adminUp = in.Boolean("admin_state_up", t.adminUp)
			return nil
		},
		Remove: func(_ *core.Call, x resource.Item) error {
			t := x.(*trunk)
			if err := t.manageable(); err != nil {
				return err
			}
			for _, sub := range t.subs {
				s.detachSubport(sub)
			}
			t.parent.trunk = nil
			delete(s.trunks, t.ID)
			return nil
		},
	}
}

func trunkView(_ *core.Call, x resource.Item) core.Object {
	t := x.(*trunk)
	return t.View(core.Object{"port_id": t.parent.ID, "admin_state_up": t.adminUp, "status": "ACTIVE", "sub_ports": t.subportViews(false)})
}

func (t *trunk) subportViews(macs bool) []core.Object {
	out := []core.Object{}
	for _, sub := range t.subs {
		o := core.Object{"port_id": sub.port.ID, "segmentation_type": sub.typ, "segmentation_id": sub.vlan}
		if macs {
			o["mac_address"] = sub.port.mac
		}
		out = append(out, o)
	}
	return out
}

// trunkRoutes registers the trunks, where there are any.
func (s *Neutron) trunkRoutes(r *core.Router) {
	base := "/v2.0/trunks/{id}/"
	r.Handle("GET "+base+"get_subports", func(c *core.Call) (*core.Reply, error) {
		x, err := s.trunkKind().Find(c, c.Param("id"))
		if err != nil {
			return nil, err
		}
		return core.OK(core.Object{"sub_ports": x.(*trunk).subportViews(false)})
	})
	r.Handle("PUT "+base+"add_subports", func(c *core.Call) (*core.Reply, error) { return s.changeSubports(c, s.addSubports) })
	r.Handle("PUT "+base+"remove_subports", func(c *core.Call) (*core.Reply, error) { return s.changeSubports(c, s.removeSubports) })
}

func (s *Neutron) changeSubports(c *core.Call, change func(*core.Call, *trunk, []subPortWish) error) (*core.Reply, error) {
	x, err := s.trunkKind().Own(c, c.Param("id"))
	if err != nil {
		return nil, err
	}
	var doc map[string]json.RawMessage
	if json.Unmarshal(c.Body, &doc) != nil {
		return nil, dialect.BadRequest("Body contains invalid data")
	}
	wishes, err := subPortWishes(doc["sub_ports"])
	if err != nil {
		return nil, err
	}
	t := x.(*trunk)
	if err := t.manageable(); err != nil {
		return nil, err
	}
	if err := change(c, t, wishes); err != nil {
		return nil, err
	}
	t.Changed()
	return core.OK(trunkView(c, t))
}

func invalidInput(format string, args ...any) *core.Error {
	return core.Errorf(http.StatusBadRequest, "InvalidInput", "Invalid input for operation: "+format, args...)
}

// subPortWishes checks a list of subports by itself.
func subPortWishes(raw json.RawMessage) ([]subPortWish, error) {
	var out []subPortWish
	if json.Unmarshal(raw, &out) != nil {
		return nil, invalidInput("Invalid data format for subports: '%s' is not a list.", dialect.Plain(raw))
	}
	seen := map[string]bool{}
	for _, w := range out {
		switch {
		case w.PortID == nil:
			return nil, invalidInput("A valid port UUID must be specified.")
		case !dialect.IsUUID(*w.PortID):
			return nil, invalidInput("Invalid UUID for subport: '%s'.", *w.PortID)
		case seen[*w.PortID]:
			return nil, invalidInput("Non unique UUID for subport: '%s'.", *w.PortID)
		}
		seen[*w.PortID] = true
		if w.VLAN != nil {
			key := w.Type + " " + strconv.Itoa(*w.VLAN)
			if seen[key] {
				return nil, invalidInput("Segmentation ID '%d' for '%s' is not unique.", *w.VLAN, *w.PortID)
			}
			seen[key] = true
		}
	}
	return out, nil
}

func (t *trunk) manageable() error {
	if !t.adminUp {
		return core.Errorf(http.StatusConflict, "TrunkDisabled", "Trunk %s is currently disabled.", t.ID)
	}
	return nil
}

func (s *Neutron) createTrunk(c *core.Call, in dialect.Fields) (resource.Item, error) {
	x, err := s.portKind().Find(c, in.Text("port_id"))
	if err != nil {
		return nil, err
	}
	p := x.(*port)
	switch {
	case p.sub != nil:
		return nil, core.Errorf(http.StatusConflict, "TrunkPortInUse", "Port %s is in use by another trunk.", p.ID)
	case p.trunk != nil:
		return nil, core.Errorf(http.StatusConflict, "ParentPortInUse", "Port %s is currently in use and is not eligible for use as a parent port.", p.ID)
	}
	var wishes []subPortWish
	if in.Given("sub_ports") {
		if wishes, err = subPortWishes(in["sub_ports"]); err != nil {
			return nil, err
		}
	}
	t := &trunk{Entity: s.newEntity(owner(c, in), ""), parent: p, adminUp: in.Boolean("admin_state_up", true)}
	t.Describe(in)
	p.trunk = t
	if err := s.addSubports(c, t, wishes); err != nil {
		p.trunk = nil
		return nil, err
	}
	s.trunks[t.ID] = t
	return t, nil
}

// addSubports adds all or none.
func (s *Neutron) addSubports(c *core.Call, t *trunk, wishes []subPortWish) error {
	var made []*subport
	for _, w := range wishes {
		x, err := s.portKind().Find(c, *w.PortID)
		if err != nil {
			return err
		}
		p := x.(*port)
		switch {
		case p == t.parent || p.trunk != nil:
			return core.Errorf(http.StatusConflict, "ParentPortInUse", "Port %s is currently in use and is not eligible for use as a parent port.", p.ID)
		case w.Type == "" || w.VLAN == nil:
			return invalidInput("Invalid subport details '%s': missing segmentation information. Must specify both segmentation_id and segmentation_type.", p.ID)
		case w.Type != "vlan":
			return invalidInput("Unknown segmentation_type '%s'.", w.Type)
		case *w.VLAN < 1 || *w.VLAN > 4094:
			return invalidInput("Segmentation ID '%d' is not in range.", *w.VLAN)
		case p.sub != nil:
			return core.Errorf(http.StatusConflict, "TrunkPortInUse", "Port %s is in use by another trunk.", p.ID)
		case p.deviceID != "":
			return core.Errorf(http.StatusConflict, "PortInUse", "Unable to complete operation on port %s for network %s. Port already has an attached device %s.", p.ID, p.networkID, p.deviceID)
		case slices.ContainsFunc(t.subs, func(o *subport) bool { return o.typ == w.Type && o.vlan == *w.VLAN }):
			return core.Errorf(http.StatusConflict, "DuplicateSubPort", "segmentation_type %s and segmentation_id %d already in use on trunk %s.", w.Type, *w.VLAN, t.ID)
		}
		made = append(made, &subport{port: p, typ: w.Type, vlan: *w.VLAN})
	}
	for _, sub := range made {
		sub.port.sub, sub.port.owner, sub.port.status = t, subportOwner, t.parent.status
		sub.port.Changed()
		t.subs = append(t.subs, sub)
	}
	return nil
}

func (s *Neutron) removeSubports(_ *core.Call, t *trunk, wishes []subPortWish) error {
	left := slices.Clone(t.subs)
	var gone []*subport
	for _, w := range wishes {
		i := slices.IndexFunc(left, func(sub *subport) bool { return sub.port.ID == *w.PortID })
		if i < 0 {
			return core.Errorf(http.StatusNotFound, "SubPortNotFound", "SubPort %s on trunk %s could not be found.", *w.PortID, t.ID)
		}
		gone = append(gone, left[i])
		left = slices.Delete(left, i, i+1)
	}
	for _, sub := range gone {
		s.detachSubport(sub)
	}
	t.subs = left
	return nil
}

func (s *Neutron) detachSubport(sub *subport) {
	sub.port.sub, sub.port.owner, sub.port.status = nil, "", "DOWN"
	sub.port.Changed()
}

// trunkGuard refuses to delete a port that a trunk uses.
func (p *port) trunkGuard() error {
	switch {
	case p.sub != nil:
		return core.Errorf(http.StatusConflict, "PortInUseAsSubPort", "Port %s is currently a subport for trunk %s.", p.ID, p.sub.ID)
	case p.trunk != nil:
		return core.Errorf(http.StatusConflict, "PortInUseAsTrunkParent", "Port %s is currently a parent port for trunk %s.", p.ID, p.trunk.ID)
	}
	return nil
}

// dropTrunks takes a port that goes with its server out of its trunk.
func (s *Neutron) dropTrunks(p *port) {
	if t := p.sub; t != nil {
		t.subs = slices.DeleteFunc(t.subs, func(sub *subport) bool { return sub.port == p })
		p.sub = nil
	}
	if t := p.trunk; t != nil {
		for _, sub := range t.subs {
			s.detachSubport(sub)
		}
		delete(s.trunks, t.ID)
		p.trunk = nil
	}
}
