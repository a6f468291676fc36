package ec2

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/store"
)

// RouteTable is a route table of a VPC.
type RouteTable struct {
	store.Record
	ID, VPCID    string
	Associations []Association
	// Routes are those of the table, without the local ones of its VPC.
	Routes []Route
	Tags   map[string]string
}

// Association says for which subnet a route table is: Main for all that have none.
type Association struct {
	ID, SubnetID string
	Main         bool
}

// Route is a route. Of the targets, one is set.
type Route struct {
	// Destination is a prefix, of IPv4 or IPv6.
	Destination                            string
	InstanceID, InterfaceID                string
	GatewayID, NATGatewayID, OtherTargetID string
	Local                                  bool
}

// Key is the ID.
func (t *RouteTable) Key() string { return t.ID }

func (t *RouteTable) clone() *RouteTable {
	out := *t
	out.Tags, out.Routes, out.Associations = maps.Clone(t.Tags), slices.Clone(t.Routes), slices.Clone(t.Associations)
	return &out
}

func (t *RouteTable) find(destination string) int {
	return slices.IndexFunc(t.Routes, func(r Route) bool { return r.Destination == destination })
}

// newTable completes and stores a route table. Locked.
func (r *Region) newTable(t RouteTable) *RouteTable {
	out := t.clone()
	out.Record = r.clock.Record()
	if out.ID == "" {
		out.ID = r.newID("rtb")
	}
	for i := range out.Associations {
		if out.Associations[i].ID == "" {
			out.Associations[i].ID = r.newID("rtbassoc")
		}
	}
	r.tables.Put(out)
	return out
}

// AddRouteTable adds a route table to the one that its VPC has. IDs are made when they are empty. It returns the table.
func (r *Region) AddRouteTable(t RouteTable) *RouteTable {
	r.lock()
	defer r.mu.Unlock()
	return r.newTable(t)
}

// MainRouteTable is a VPC's.
func (r *Region) MainRouteTable(vpcID string) *RouteTable {
	r.lock()
	defer r.mu.Unlock()
	found := r.tables.Where(func(t *RouteTable) bool {
		return t.VPCID == vpcID && slices.ContainsFunc(t.Associations, func(a Association) bool { return a.Main })
	})
	if len(found) == 0 {
		panic("no VPC " + vpcID)
	}
	return found[0]
}

// AddRoute puts a route into a table, whatever its target is and whether that exists.
func (r *Region) AddRoute(table string, route Route) {
	r.lock()
	defer r.mu.Unlock()
	t := r.tables.Get(table).clone()
	t.Routes = append(t.Routes, route)
	r.tables.Put(t)
}

// RouteTables are those with these IDs, or all.
func (r *Region) RouteTables(ids []string) ([]*RouteTable, error) {
	r.lock()
	defer r.mu.Unlock()
	return lookUp(&r.tables, "rtb", ids, nil)
}

// SeenRoute is a route as it is shown.
type SeenRoute struct {
	Route
	// Origin is "CreateRouteTable" or "CreateRoute", State "active" or "blackhole".
	Origin, State string
}

// Routes are a table's routes, the VPC's local ones first. A route to an instance has its interface, too, and one to an interface
// has its instance. Unverified is that a route is a blackhole while its instance is stopped, and that it keeps the ID of an
// instance that is gone.
func (r *Region) Routes(t *RouteTable) []SeenRoute {
	r.lock()
	defer r.mu.Unlock()
	var out []SeenRoute
	if vpc := r.vpcs.Get(t.VPCID); vpc != nil {
		for _, cidr := range []string{vpc.CIDR, vpc.IPv6CIDR} {
			if cidr != "" {
				out = append(out, SeenRoute{Route{Destination: cidr, GatewayID: "local", Local: true}, "CreateRouteTable", "active"})
			}
		}
	}
	for _, route := range t.Routes {
		seen := SeenRoute{route, "CreateRoute", "active"}
		if n := r.interfaces.Get(route.InterfaceID); n != nil {
			seen.InstanceID = n.InstanceID
		}
		if seen.InstanceID != "" || seen.InterfaceID != "" {
			i := r.instances.Get(seen.InstanceID)
			if i == nil || i.State != Running && i.State != Pending || r.interfaces.Get(seen.InterfaceID) == nil {
				seen.State = "blackhole"
			}
		}
		out = append(out, seen)
	}
	return out
}

// target completes a new route's target, and checks it. Locked.
func (r *Region) target(t *RouteTable, route *Route) error {
	n := 0
	for _, id := range []string{route.InstanceID, route.InterfaceID, route.GatewayID, route.NATGatewayID, route.OtherTargetID} {
		if id != "" {
			n++
		}
	}
	if n != 1 {
		return query.Errorf("InvalidParameterCombination",
			"The request must contain exactly one of the route targets.") // unverified message
	}
	if route.InstanceID != "" {
		i, err := get(&r.instances, "i", route.InstanceID, r.hiddenInstance)
		if err != nil {
			return err
		}
		only, err := i.only()
		if err != nil {
			return err
		}
		route.InterfaceID = only.ID
	}
	if route.InterfaceID != "" {
		n, err := get(&r.interfaces, "eni", route.InterfaceID, nil)
		if err != nil {
			return err
		}
		if n.VPCID != t.VPCID {
			return query.Errorf("InvalidParameterValue", "route table %s and network interface %s belong to different networks", t.ID,
				n.ID)
		}
	}
	return nil
}

// canonical is a prefix without bits of a host, as CreateRoute takes it.
func canonical(cidr string, v6 bool) (string, error) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil || p.Addr().Is6() != v6 {
		return "", query.Errorf("InvalidParameterValue",
			"Value (%s) for parameter destinationCidrBlock is invalid. This is not a valid CIDR block.", cidr)
	}
	return p.Masked().String(), nil
}

// CreateRoute adds a route; v6 says for which family its destination has to be.
func (r *Region) CreateRoute(table string, route Route, v6 bool) error {
	r.lock()
	defer r.mu.Unlock()
	t, err := get(&r.tables, "rtb", table, nil)
	if err != nil {
		return err
	}
	if route.Destination, err = canonical(route.Destination, v6); err != nil {
		return err
	}
	if err := r.target(t, &route); err != nil {
		return err
	}
	// Unverified is that an equal route is refused like another one.
	if vpc := r.vpcs.Get(t.VPCID); t.find(route.Destination) >= 0 || vpc != nil && (route.Destination == vpc.CIDR ||
		route.Destination == vpc.IPv6CIDR) {
		return query.Errorf("RouteAlreadyExists", "The route identified by %s already exists.", route.Destination)
	}
	if len(t.Routes) >= r.opts.RoutesPerTable {
		return query.Errorf("RouteLimitExceeded", "The maximum number of routes has been reached.")
	}
	next := t.clone()
	next.Routes = append(next.Routes, route)
	r.tables.Put(next)
	return nil
}

// ReplaceRoute gives a route another target.
func (r *Region) ReplaceRoute(table string, route Route) error {
	r.lock()
	defer r.mu.Unlock()
	t, err := get(&r.tables, "rtb", table, nil)
	if err != nil {
		return err
	}
	if err := r.target(t, &route); err != nil {
		return err
	}
	i := t.find(route.Destination)
	if i < 0 {
		return query.Errorf("InvalidParameterValue",
			"There is no route defined for '%s' in the route table. Use CreateRoute instead.", route.Destination)
	}
	next := t.clone()
	next.Routes[i] = route
	r.tables.Put(next)
	return nil
}

// DeleteRoute deletes the route to a destination.
func (r *Region) DeleteRoute(table, destination string) error {
	r.lock()
	defer r.mu.Unlock()
	t, err := get(&r.tables, "rtb", table, nil)
	if err != nil {
		return err
	}
	i := t.find(destination)
	if i < 0 {
		return query.Errorf("InvalidRoute.NotFound", "no route with destination-cidr-block %s in route table %s", destination, table)
	}
	next := t.clone()
	next.Routes = slices.Delete(next.Routes, i, i+1)
	r.tables.Put(next)
	return nil
}
