package neutron

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inflight"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// Members are addresses of Nodes.
type Members map[netip.Addr]Member

// Member is a Node. Server is its server's ID, "" when it is not known.
type Member struct{ Node, Server string }

// Membership is which ports a Service wants its group on.
type Membership struct {
	Group string
	// Members are who shall have it. No port loses it because of that; see Placement.
	Members Members
	// Known are those who were seen to have it: then only who has come or gone since is looked at. Nil:
	// every port that has it is looked at.
	Known Members
	// Drop are ports to take it off; then Members say nothing.
	Drop []*Port
}

// Placement is what was found on the way.
type Placement struct {
	// Given is how many ports have got the group.
	Given int
	// Left are the ports that have it and are no member's, nor another port of a member's server: older
	// controllers gave it to all of them.
	Left []*Port
	// Without are the Nodes for which there is not exactly one port of this project.
	Without []string
}

// nodePorts is the key of the one object that all Services share: a Node's port has the groups of all of
// them in one list, which is written as a whole.
const nodePorts = "the security groups of the nodes' ports"

// Attach has again told, until ctx ends, of Services whose change of ports has ended.
func (s *SecurityGroups) Attach(ctx context.Context, again func(cloud.LoadBalancerRef)) {
	s.ports.Attach(ctx, again)
}

// Pending is how many Services' changes of ports are under way or not asked for yet.
func (s *SecurityGroups) Pending() int { return s.ports.Len() }

// Place gives a Service's group to ports, or takes it off them, together with what other Services want:
// each port is written once for all of them. It is KindRetryAfter until that has ended, see joint.Objects.
func (s *SecurityGroups) Place(ctx context.Context, ref cloud.LoadBalancerRef, m Membership) (Placement, error) {
	return s.ports.Ensure(ctx, nodePorts, ref, m)
}

// Remove takes a Service's group off all ports, as Place does.
func (s *SecurityGroups) Remove(ctx context.Context, ref cloud.LoadBalancerRef, group string) error {
	return s.ports.Delete(ctx, nodePorts, ref, Membership{Group: group})
}

// place is the pass over the ports that some Services want something of. What is not these Services'
// stays in each port's list.
func (s *SecurityGroups) place(ctx context.Context, _ string, tenants []joint.Tenant[Membership]) ([]cloud.Result[Placement], error) {
	seen, err := s.read(ctx, tenants)
	if err != nil {
		return nil, err
	}
	out := make([]cloud.Result[Placement], len(tenants))
	change := map[*Port]*groupChange{}
	at := func(p *Port) *groupChange {
		if change[p] == nil {
			change[p] = &groupChange{}
		}
		return change[p]
	}
	for i, t := range tenants {
		m, found := &t.Desired, &out[i].Value
		drop := m.Drop
		if t.Gone {
			drop = seen.byGroup[m.Group]
		}
		for _, p := range drop {
			if p = seen.byID[p.ID]; p != nil { // otherwise it is gone
				at(p).remove = append(at(p).remove, m.Group)
			}
		}
		if t.Gone || m.Drop != nil {
			continue
		}
		var lacking []*Port
		lacking, found.Without = m.lacking(seen)
		for _, p := range lacking {
			at(p).add = append(at(p).add, m.Group)
		}
		found.Given, found.Left = len(lacking), m.left(seen)
	}
	return out, s.write(ctx, change)
}

// portsSeen are the ports that were read.
type portsSeen struct {
	byID      map[string]*Port
	byAddress map[netip.Addr][]*Port
	byGroup   map[string][]*Port
}

// add adds ports that are not there yet.
func (s *portsSeen) add(ports []*Port) {
	for _, p := range ports {
		if s.byID[p.ID] != nil {
			continue
		}
		s.byID[p.ID] = p
		for _, a := range p.Addresses() {
			s.byAddress[a] = append(s.byAddress[a], p)
		}
		for _, g := range p.Groups {
			s.byGroup[g] = append(s.byGroup[g], p)
		}
	}
}

// of are the ports of a member, by its address.
func (s *portsSeen) of(addr netip.Addr, m Member) []*Port {
	return slices.DeleteFunc(slices.Clone(s.byAddress[addr]), func(p *Port) bool { return !p.isOf(m) })
}

// asked are the members whose ports have to be looked at.
func (m *Membership) asked() Members {
	out := maps.Clone(m.Members)
	maps.DeleteFunc(out, func(a netip.Addr, x Member) bool { return m.Known[a] == x })
	for a, x := range m.Known {
		if _, still := m.Members[a]; !still { // one that another server's has replaced is that one's
			out[a] = x
		}
	}
	return out
}

// lacking are the ports that the group has to be given to, and the Nodes for which there is not one: none,
// or two networks with the same addresses and no server's ID to tell them apart. A port without port
// security takes no groups and needs none.
func (m *Membership) lacking(seen *portsSeen) (lacking []*Port, without []string) {
	found := map[*Port]bool{}
	for _, p := range seen.byGroup[m.Group] {
		found[p] = true
	}
	for addr, x := range m.asked() {
		ports := seen.of(addr, x)
		switch {
		case m.Members[addr] != x: // has gone
		case slices.ContainsFunc(ports, func(p *Port) bool { return found[p] }):
		case len(ports) != 1:
			without = append(without, x.Node)
		case !ports[0].IsOpen():
			found[ports[0]] = true
			lacking = append(lacking, ports[0])
		}
	}
	slices.Sort(without)
	return lacking, slices.Compact(without)
}

func (m *Membership) left(seen *portsSeen) []*Port {
	servers := map[string]bool{}
	for _, x := range m.Members {
		servers[x.Server] = x.Server != ""
	}
	return slices.DeleteFunc(slices.Clone(seen.byGroup[m.Group]), func(p *Port) bool {
		return servers[p.DeviceID] || slices.ContainsFunc(p.Addresses(), func(a netip.Addr) bool {
			x, ok := m.Members[a]
			return ok && p.isOf(x)
		})
	})
}

// isOf reports whether a port that has the member's address is the member's. The address
// alone does not say so: other networks may have it as well.
func (p *Port) isOf(m Member) bool {
	const subport = "trunk:subport" // its device is not the server
	if m.Server != "" && p.DeviceOwner != subport {
		return p.DeviceID == m.Server
	}
	return p.DeviceOwner == subport || strings.HasPrefix(p.DeviceOwner, "compute:")
}

func portFields() url.Values {
	return url.Values{"fields": {"id", "device_id", "device_owner", "fixed_ips", "security_groups", "port_security_enabled", "revision_number"}}
}

// read reads the ports that the Services want something of: of one that knows nothing, those with its
// group; those of members by their addresses; every port once where several know nothing. What is to be
// dropped was read before: who changes it is told if it is another one by now.
func (s *SecurityGroups) read(ctx context.Context, tenants []joint.Tenant[Membership]) (*portsSeen, error) {
	seen := &portsSeen{byID: map[string]*Port{}, byAddress: map[netip.Addr][]*Port{}, byGroup: map[string][]*Port{}}
	var unknown, addresses []string
	var drop []*Port
	for _, t := range tenants {
		if drop = append(drop, t.Desired.Drop...); t.Desired.Known == nil && t.Desired.Drop == nil {
			unknown = append(unknown, t.Desired.Group)
		}
	}
	if len(unknown) > 1 {
		all, err := api.List[*Port](ctx, s.c.On(ctx, api.Network, "list ports"), "ports", portFields())
		seen.add(all)
		return seen, err
	}
	if len(unknown) == 1 {
		query := portFields()
		query.Set("security_groups", unknown[0])
		have, err := api.List[*Port](ctx, s.c.On(ctx, api.Network, "list ports with security group "+unknown[0]), "ports", query)
		if err != nil {
			return nil, err
		}
		seen.add(have)
	}
	for _, t := range tenants {
		if t.Gone || t.Desired.Drop != nil {
			continue
		}
		for addr, x := range t.Desired.asked() {
			if !slices.ContainsFunc(seen.of(addr, x), func(p *Port) bool { return slices.Contains(p.Groups, t.Desired.Group) }) {
				addresses = append(addresses, "ip_address="+addr.String())
			}
		}
	}
	slices.Sort(addresses)
	query := portFields()
	query["fixed_ips"] = slices.Compact(addresses)
	found, err := api.ListByOrAll[*Port](ctx, s.c.On(ctx, api.Network, "list ports of members"), "ports", "fixed_ips", query)
	if err != nil {
		return nil, err
	}
	seen.add(found)
	slices.SortFunc(drop, func(a, b *Port) int { return cmp.Compare(b.Revision, a.Revision) }) // the latest of each
	for _, p := range drop {
		port := *p // the tenant's stays as it is
		seen.add([]*Port{&port})
	}
	return seen, nil
}

const (
	// portsAtOnce is how many ports are changed at the same time.
	portsAtOnce = 4
	// portTries bounds how often a port is read again because others have changed it.
	portTries = 10
)

// groupChange is which groups a port gets and loses.
type groupChange struct{ add, remove []string }

func (c *groupChange) of(p *Port) []string {
	list := slices.DeleteFunc(append([]string{}, p.Groups...), func(g string) bool { return slices.Contains(c.remove, g) })
	for _, g := range c.add {
		if !p.IsOpen() && !slices.Contains(list, g) {
			list = append(list, g)
		}
	}
	return list
}

// write writes each port's list, and leaves in it what others have there. A port that is gone needs
// nothing.
func (s *SecurityGroups) write(ctx context.Context, changes map[*Port]*groupChange) error {
	if len(changes) == 0 {
		return nil
	}
	can, err := s.extensions.Get(ctx, s.c)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var errs []error
	inflight.Each(portsAtOnce, maps.All(changes), func(p *Port, change *groupChange) {
		c := PortChange{Op: "set security groups of port " + p.ID, Key: "security_groups", Tries: portTries}
		err := c.Apply(ctx, s.c, can, p, func(p *Port) any {
			list := change.of(p)
			if slices.Equal(list, p.Groups) {
				return nil
			}
			klog.FromContext(ctx).V(2).Info("Changing security groups of a port", "port", p.ID, "server", p.DeviceID,
				"add", change.add, "remove", change.remove)
			return list
		})
		mu.Lock()
		defer mu.Unlock()
		if err != nil && !cloud.IsNotFound(err) {
			errs = append(errs, err)
		}
	})
	if len(errs) == 0 {
		return nil
	}
	// What is nobody's fault counts first: then no Service is looked for that may be at fault.
	first := errs[max(0, slices.IndexFunc(errs, func(err error) bool { return !joint.Blames(err) }))]
	return &cloud.Error{Kind: cloud.KindOf(first), RetryAfter: cloud.RetryAfter(first), Err: errors.Join(errs...)}
}
