package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
)

// groupPort is what is read of a port that has, or shall have, a Service's security group.
type groupPort struct {
	ID           string            `json:"id"`
	DeviceID     string            `json:"device_id"`
	DeviceOwner  string            `json:"device_owner"`
	FixedIPs     []neutron.FixedIP `json:"fixed_ips"`
	Groups       []string          `json:"security_groups"`
	PortSecurity *bool             `json:"port_security_enabled"`
	Revision     int               `json:"revision_number"`
}

func groupPortFields() []string {
	return []string{"id", "device_id", "device_owner", "fixed_ips", "security_groups", "port_security_enabled", "revision_number"}
}

// portsWithGroup are the ports that a security group is given to.
func (o *lbOperation) portsWithGroup(ctx context.Context, id string) ([]*groupPort, error) {
	ports, err := api.ListAll[*groupPort](ctx, o.neutron, "ports", url.Values{"security_groups": {id}, "fields": groupPortFields()}, "ports")
	if err != nil {
		return nil, api.WrapError("list ports with security group "+id, err)
	}
	return slices.DeleteFunc(ports, func(p *groupPort) bool { return !slices.Contains(p.Groups, id) }), nil
}

// openPorts gives the group to the members' ports that lack it, and finds those that are
// left over from Nodes that are no members any more. known is what was seen before: then
// only the Nodes that have come or gone since are looked at, otherwise one list tells which
// ports have the group and a second one finds the members that are missing in it.
func (o *lbOperation) openPorts(ctx context.Context, w *lbWishes, work *groupWork, known *groupState) error {
	ask := maps.Clone(work.state.members)
	var have []*groupPort
	var err error
	if known != nil {
		maps.DeleteFunc(ask, func(addr netip.Addr, m groupMember) bool { return known.members[addr] == m })
		for addr, m := range known.members {
			if work.state.members[addr] != m {
				ask[addr] = m
			}
		}
	} else if have, err = o.portsWithGroup(ctx, work.state.id); err != nil {
		return err
	}
	for _, p := range have {
		for _, addr := range p.addresses() {
			if m, ok := work.state.members[addr]; ok && p.isOf(m) {
				delete(ask, addr)
			}
		}
	}
	asked, err := o.portsAt(ctx, ask)
	if err != nil {
		return err
	}
	work.drop = leftPorts(slices.Concat(have, asked), work.state)
	lacking, without := lackingPorts(asked, ask, work.state)
	if len(without) > 0 {
		work.state.warnings = []string{fmt.Sprintf("%d nodes have no Neutron port of this project with their address, so that the security group %s could not be given to them: %s; open their node ports by a group of yours",
			len(without), groupName(w.spec.LoadBalancerRef), strings.Join(without[:min(len(without), 10)], ", "))}
	}
	if len(lacking) > 0 && w.spec.Verify {
		o.repaired = append(o.repaired, fmt.Sprintf("give the security group to the ports of %d nodes", len(lacking)))
	}
	return o.changeGroups(ctx, lacking, work.state.id, true)
}

// leftPorts are the ports that have the group although they are no member's, nor another
// port of a member's server: older controllers gave the group to all of them.
func leftPorts(ports []*groupPort, state groupState) []*groupPort {
	servers := map[string]bool{}
	for _, m := range state.members {
		servers[m.server] = true
	}
	var left []*groupPort
	for _, p := range ports {
		wanted := p.DeviceID != "" && servers[p.DeviceID] || !slices.Contains(p.Groups, state.id)
		for _, addr := range p.addresses() {
			m, ok := state.members[addr]
			wanted = wanted || ok && p.isOf(m)
		}
		if !wanted && !slices.ContainsFunc(left, func(o *groupPort) bool { return o.ID == p.ID }) {
			left = append(left, p)
		}
	}
	return left
}

// lackingPorts picks the ports of the members that were asked for, and names the Nodes for
// which there is not exactly one.
func lackingPorts(ports []*groupPort, asked map[netip.Addr]groupMember, state groupState) (lacking []*groupPort, without []string) {
	found := map[netip.Addr][]*groupPort{}
	for _, p := range ports {
		for _, addr := range p.addresses() {
			m, ok := state.members[addr]
			again := slices.ContainsFunc(found[addr], func(o *groupPort) bool { return o.ID == p.ID })
			if ok && asked[addr] == m && p.isOf(m) && !again {
				found[addr] = append(found[addr], p)
			}
		}
	}
	seen := map[string]bool{}
	for addr, m := range asked {
		candidates := found[addr]
		switch {
		case state.members[addr] != m: // has gone
		case len(candidates) != 1: // none, or two networks with the same addresses and no server's ID to tell them apart
			without = append(without, m.node)
		case !seen[candidates[0].ID]:
			seen[candidates[0].ID] = true
			lacking = append(lacking, candidates[0])
		}
	}
	slices.Sort(without)
	return lacking, slices.Compact(without)
}

func (p *groupPort) addresses() []netip.Addr {
	var out []netip.Addr
	for _, f := range p.FixedIPs {
		if addr, err := netip.ParseAddr(f.IPAddress); err == nil {
			out = append(out, addr)
		}
	}
	return out
}

// isOf reports whether a port that has the member's address is the member's. The address
// alone does not say so: other networks may have it as well.
func (p *groupPort) isOf(m groupMember) bool {
	const subport = "trunk:subport" // its device is not the server
	if m.server != "" && p.DeviceOwner != subport {
		return p.DeviceID == m.server
	}
	return p.DeviceOwner == subport || strings.HasPrefix(p.DeviceOwner, "compute:")
}

// portsAt reads the ports that have one of the addresses: of few by the addresses, of many by
// listing every port once.
func (o *lbOperation) portsAt(ctx context.Context, members map[netip.Addr]groupMember) (ports []*groupPort, err error) {
	query := url.Values{"fields": groupPortFields()}
	if len(members) == 0 {
		return nil, nil
	}
	if len(members) <= api.FewIDs {
		var filters []string
		for addr := range members {
			filters = append(filters, "ip_address="+addr.String())
		}
		slices.Sort(filters)
		ports, err = api.ListIn[*groupPort](ctx, o.neutron, "ports", "ports", "fixed_ips", filters, query)
	} else {
		ports, err = api.ListAll[*groupPort](ctx, o.neutron, "ports", query, "ports")
	}
	return ports, api.WrapError("list ports of members", err)
}

const (
	// groupsAtOnce is how many ports are changed at the same time.
	groupsAtOnce = 4
	// groupTries bounds how often a port is read again because others have changed it.
	groupTries = 10
)

// changeGroups gives the group to the ports, or takes it away from them, and touches no other.
func (o *lbOperation) changeGroups(ctx context.Context, ports []*groupPort, group string, add bool) error {
	if len(ports) == 0 {
		return nil
	}
	can, err := o.lb.extensions.Get(ctx, o.lb.c)
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(groupsAtOnce)
	errs := make([]error, len(ports))
	for i, p := range ports {
		g.Go(func() error {
			errs[i] = o.changeGroupsOf(ctx, p, group, add, can)
			return nil
		})
	}
	_ = g.Wait() // its functions answer by errs
	return errors.Join(errs...)
}

// changeGroupsOf writes a port's list of groups with, or without, ours. The list is written
// as a whole, so the port's revision guards what others have written since it was read; then
// it is read again. A port without port security takes no groups and needs none.
func (o *lbOperation) changeGroupsOf(ctx context.Context, p *groupPort, group string, add bool, can map[string]bool) error {
	op := "set security groups of port " + p.ID
	for try := 1; ; try++ {
		has := slices.Contains(p.Groups, group)
		if has == add || add && p.PortSecurity != nil && !*p.PortSecurity {
			return nil
		}
		list := slices.DeleteFunc(append([]string{}, p.Groups...), func(id string) bool { return id == group })
		if add {
			list = append(list, group)
		}
		klog.FromContext(ctx).V(2).Info("Changing security groups of a port", "port", p.ID, "server", p.DeviceID, "securityGroup", group, "add", add)
		body := map[string]any{"port": map[string]any{"security_groups": list}}
		url := o.neutron.ServiceURL("ports", p.ID)
		err := api.WrapError(op, api.PutJSON(ctx, o.neutron, url, body, nil, neutron.Guard(can, p.Revision)))
		switch {
		case err == nil, cloud.IsNotFound(err): // a port that is gone needs nothing
			return nil
		case !cloud.IsStale(err) || try == groupTries:
			return err
		}
		var doc struct {
			Port *groupPort `json:"port"`
		}
		switch getErr := api.WrapError(op, api.GetJSON(ctx, o.neutron, url, &doc)); {
		case cloud.IsNotFound(getErr):
			return nil
		case getErr != nil || doc.Port == nil:
			return errors.Join(err, getErr)
		}
		p = doc.Port
	}
}
