package nova

import (
	"cmp"
	"context"
	"net/url"
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
)

// attachments are the ports of servers and what reaches them through trunks, by server ID.
type attachments struct {
	ports    map[string][]neutron.Port // sorted by ID
	subports map[string][]subport
}

// portQuery asks for no more of a port than is used; Neutron ignores fields it does not know.
func portQuery() url.Values {
	return url.Values{"fields": {"id", "device_id", "network_id", "status", "fixed_ips", "trunk_details"}}
}

// readPorts reads the ports of the servers: of few by their devices, of many by listing
// every port once. (Ports cannot be listed by a prefix of device_owner, and the owner of a
// server's port names the zone it was made in, which need not be the server's any more.)
func (i *Instances) readPorts(ctx context.Context, servers []string) (*attachments, error) {
	sc, err := i.c.Network(ctx)
	if err != nil {
		return nil, err
	}
	all, err := api.ListFewOrAll[neutron.Port](ctx, sc, "ports", "device_id", servers, portQuery())
	if err != nil {
		return nil, api.WrapError("list ports", err)
	}
	known := make(map[string]*neutron.Port, len(all))
	for n := range all {
		known[all[n].ID] = &all[n]
	}
	out := &attachments{ports: make(map[string][]neutron.Port, len(servers)), subports: map[string][]subport{}}
	for _, p := range known {
		if _, wanted := slices.BinarySearch(servers, p.DeviceID); wanted {
			out.ports[p.DeviceID] = append(out.ports[p.DeviceID], *p)
		}
	}
	for _, ports := range out.ports {
		slices.SortFunc(ports, func(a, b neutron.Port) int { return cmp.Compare(a.ID, b.ID) })
	}
	return out, i.readSubports(ctx, out, known)
}

// readSubports adds the trunk subports of the servers, which the ports that carry the
// trunks name: their ports where they are not known yet, and their networks' names, by
// which address rules go.
func (i *Instances) readSubports(ctx context.Context, a *attachments, known map[string]*neutron.Port) error {
	var missing []string
	carried := map[string][]string{} // server → subport IDs
	for server, ports := range a.ports {
		for _, p := range ports {
			if p.TrunkDetails == nil {
				continue
			}
			for _, sp := range p.TrunkDetails.SubPorts {
				carried[server] = append(carried[server], sp.PortID)
				if known[sp.PortID] == nil {
					missing = append(missing, sp.PortID)
				}
			}
		}
	}
	if len(carried) == 0 {
		return nil
	}
	sc, err := i.c.Network(ctx)
	if err != nil {
		return err
	}
	more, err := api.ListFewOrAll[neutron.Port](ctx, sc, "ports", "id", missing, portQuery())
	if err != nil {
		return api.WrapError("list trunk subports", err)
	}
	for n := range more {
		known[more[n].ID] = &more[n]
	}
	names, err := i.networkNames(ctx, carried, known)
	if err != nil {
		return err
	}
	for server, ids := range carried {
		for _, id := range ids {
			p := known[id]
			if p == nil || names[p.NetworkID] == "" {
				continue // another project's: its addresses cannot be seen
			}
			sp := subport{network: names[p.NetworkID]}
			for _, ip := range p.FixedIPs {
				sp.addresses = append(sp.addresses, ip.IPAddress)
			}
			a.subports[server] = append(a.subports[server], sp)
		}
	}
	return nil
}

// networkNames reads the names of the carried subports' networks, by ID.
func (i *Instances) networkNames(ctx context.Context, carried map[string][]string, known map[string]*neutron.Port) (map[string]string, error) {
	var ids []string
	for _, subports := range carried {
		for _, id := range subports {
			if p := known[id]; p != nil && !slices.Contains(ids, p.NetworkID) {
				ids = append(ids, p.NetworkID)
			}
		}
	}
	slices.Sort(ids)
	type network struct{ ID, Name string }
	sc, err := i.c.Network(ctx)
	if err != nil {
		return nil, err
	}
	networks, err := api.ListFewOrAll[network](ctx, sc, "networks", "id", ids, url.Values{"fields": {"id", "name"}})
	if err != nil {
		return nil, api.WrapError("list networks of trunk subports", err)
	}
	names := make(map[string]string, len(networks))
	for _, n := range networks {
		names[n.ID] = n.Name
	}
	return names, nil
}
