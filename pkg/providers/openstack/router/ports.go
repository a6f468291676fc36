package router

import (
	"context"
	"maps"
	"net/netip"
	"net/url"
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inflight"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/providerid"
)

// isPairOf reports whether the pair lets the port send from the route's destination by its own MAC.
func isPairOf(route cloud.Route, a neutron.AddressPair, p *neutron.Port) bool {
	if a.MACAddress != "" && p.MAC != "" && a.MACAddress != p.MAC {
		return false
	}
	if prefix, err := netip.ParsePrefix(a.IPAddress); err == nil {
		return prefix.Masked() == route.Destination.Masked()
	}
	addr, err := netip.ParseAddr(a.IPAddress)
	return err == nil && route.Destination.IsSingleIP() && addr == route.Destination.Addr()
}

// needsPair reports whether the port lacks the pair for the route. A port without port
// security may send from any address, and Neutron refuses pairs there.
func needsPair(p *neutron.Port, route cloud.Route) bool {
	if p == nil || p.IsOpen() {
		return false
	}
	return !slices.ContainsFunc(p.Pairs, func(a neutron.AddressPair) bool { return isPairOf(route, a, p) })
}

// findPorts finds the port behind each item's next hop, for all items in one request. The
// same address may exist on networks that the router does not reach; the Node's server or,
// where that is not known, the router's own subnets tell which port it is.
func (b *routeBatch) findPorts(ctx context.Context) error {
	var filters []string
	asked := map[netip.Addr]bool{}
	for _, item := range b.items {
		if filter := "ip_address=" + item.route.NextHop.String(); item.err == nil && !item.adopt && !asked[item.route.NextHop] {
			asked[item.route.NextHop] = true
			filters = append(filters, filter)
		}
	}
	if len(filters) == 0 {
		return nil
	}
	ports, err := api.ListBy[*neutron.Port](ctx, b.r.c.On(ctx, api.Network, "list ports of next hops"), "ports", "fixed_ips", url.Values{"fixed_ips": filters, "fields": {
		"id", "device_id", "fixed_ips", "allowed_address_pairs", "port_security_enabled", "revision_number", "mac_address"}})
	if err != nil {
		return err
	}
	byAddress := portsByAddress(ports)
	var subnets map[string][]string // of the router, read when needed
	for _, item := range b.items {
		if item.err != nil || item.adopt {
			continue
		}
		candidates := slices.Clone(byAddress[item.route.NextHop])
		if id, _, err := providerid.Parse(item.route.Node.ProviderID); err == nil {
			candidates = slices.DeleteFunc(candidates, func(p *neutron.Port) bool { return p.DeviceID != id })
		} else if len(candidates) > 1 {
			if subnets == nil {
				if subnets, err = interfaces(ctx, b.r.c, b.r.router); err != nil {
					return err
				}
			}
			candidates = slices.DeleteFunc(candidates, func(p *neutron.Port) bool { return !onSubnet(p, item.route.NextHop, subnets) })
		}
		switch {
		case len(candidates) == 1:
			item.port = candidates[0]
		case len(candidates) > 1:
			item.err = cloud.Errorf(cloud.KindConflict, "route to %s: %d ports have the next hop %s", item.route.Destination, len(candidates), item.route.NextHop)
		case item.add:
			item.err = cloud.Errorf(cloud.KindUnknown, "route to %s: no port of the node has the next hop %s", item.route.Destination, item.route.NextHop)
		}
	}
	return nil
}

// portsByAddress lists each port under each of its addresses, once.
func portsByAddress(ports []*neutron.Port) map[netip.Addr][]*neutron.Port {
	out := map[netip.Addr][]*neutron.Port{}
	for _, p := range ports {
		for _, addr := range p.Addresses() {
			if !slices.ContainsFunc(out[addr], func(o *neutron.Port) bool { return o.ID == p.ID }) {
				out[addr] = append(out[addr], p)
			}
		}
	}
	return out
}

// onSubnet reports whether the port has the address on one of the subnets.
func onSubnet(p *neutron.Port, ip netip.Addr, subnets map[string][]string) bool {
	return slices.ContainsFunc(p.FixedIPs, func(f neutron.FixedIP) bool { return f.Is(ip) && subnets[f.SubnetID] != nil })
}

// interfaces are the subnets that routers have interfaces on, with those routers.
func interfaces(ctx context.Context, c *api.Client, routers ...string) (map[string][]string, error) {
	ports, err := api.ListBy[neutron.Port](ctx, c.On(ctx, api.Network, "list interfaces of routers"), "ports", "device_id",
		url.Values{"device_id": routers, "fields": {"id", "device_id", "fixed_ips"}})
	if err != nil {
		return nil, err
	}
	on := map[string][]string{}
	for _, p := range ports {
		for _, f := range p.FixedIPs {
			on[f.SubnetID] = append(on[f.SubnetID], p.DeviceID)
		}
	}
	return on, nil
}

// addPairs gives each port that lacks it the pair of its route.
func (b *routeBatch) addPairs(ctx context.Context) {
	items := slices.DeleteFunc(b.open(true), func(item *routeItem) bool { return item.adopt })
	b.changePairs(ctx, items, func(p *neutron.Port, items []*routeItem) []neutron.AddressPair {
		pairs := slices.Clone(p.Pairs)
		for _, item := range items {
			if needsPair(p, item.route) {
				pairs = append(pairs, neutron.AddressPair{IPAddress: item.route.Destination.Masked().String()})
			}
		}
		return pairs
	})
}

// rememberPairs notes the pairs that are about to be made.
func (b *routeBatch) rememberPairs() {
	for _, item := range b.open(true) {
		if !item.adopt && needsPair(item.port, item.route) && b.table.record(b.cluster, item.route) != recordWithPair {
			b.r.pairs[entryOf(item.route)] = true
		}
	}
}

// ownsPair reports whether the route's pair is ours.
func (b *routeBatch) ownsPair(route cloud.Route) bool {
	return b.r.pairs[entryOf(route)] || b.table.record(b.cluster, route) == recordWithPair
}

// removePairs takes the pairs of removed routes out again, those that are ours.
func (b *routeBatch) removePairs(ctx context.Context) {
	b.changePairs(ctx, b.open(false), func(p *neutron.Port, items []*routeItem) []neutron.AddressPair {
		return slices.DeleteFunc(slices.Clone(p.Pairs), func(a neutron.AddressPair) bool {
			return slices.ContainsFunc(items, func(item *routeItem) bool {
				return isPairOf(item.route, a, p) && b.ownsPair(item.route)
			})
		})
	})
}

// pairsAtOnce is how many ports are changed at the same time.
const pairsAtOnce = 4

// changePairs changes each port of the items at most once. A port that fails fails its items.
func (b *routeBatch) changePairs(ctx context.Context, items []*routeItem, change func(*neutron.Port, []*routeItem) []neutron.AddressPair) {
	byPort := map[string][]*routeItem{}
	for _, item := range items {
		if item.port != nil {
			byPort[item.port.ID] = append(byPort[item.port.ID], item)
		}
	}
	inflight.Each(pairsAtOnce, maps.All(byPort), func(_ string, items []*routeItem) {
		err := b.changePort(ctx, items[0].port, func(p *neutron.Port) []neutron.AddressPair { return change(p, items) })
		for _, item := range items {
			item.err = portError(item, err)
		}
	})
}

// portError is what a port's failure means to a route: a port that is gone needs no cleaning
// up, but cannot be a next hop either. It never means that the route is not found.
func portError(item *routeItem, err error) error {
	switch {
	case !cloud.IsNotFound(err):
		return err
	case item.add:
		return cloud.Errorf(cloud.KindStale, "route to %s: the port of its next hop vanished: %w", item.route.Destination, err)
	}
	return nil
}

// pairTries bounds how often a port is read again because others have changed it.
const pairTries = 3

// changePort writes a port's pairs where change changes them.
func (b *routeBatch) changePort(ctx context.Context, p *neutron.Port, change func(*neutron.Port) []neutron.AddressPair) error {
	c := neutron.PortChange{Op: "set allowed address pairs of port " + p.ID, Key: "allowed_address_pairs", Tries: pairTries}
	return c.Apply(ctx, b.r.c, b.can, p, func(p *neutron.Port) any {
		pairs := change(p)
		if slices.Equal(pairs, p.Pairs) {
			return nil
		}
		return append([]neutron.AddressPair{}, pairs...) // not null
	})
}
