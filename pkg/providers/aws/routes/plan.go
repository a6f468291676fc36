package routes

import (
	"net/netip"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

// change is what is to be done about a destination: the route that is there goes (drop), then one to an instance comes (to).
// added and removed are which of the routes that were asked for it answers, -1 for none.
type change struct {
	destination    netip.Prefix
	drop           bool
	to             *machine
	added, removed int
}

// observed is a table with the instances that its routes lead to, or shall, by their IDs.
type observed struct {
	table    *table
	machines map[string]*machine
}

// plan is what has to be done to a table for the routes to be there, or not. errs answers add, then remove, where there is nothing to be done.
func plan(seen observed, cluster cloud.Cluster, add, remove []cloud.Route) (changes []*change, errs []error) {
	t, machines := seen.table, seen.machines
	errs = make([]error, len(add)+len(remove))
	at := map[netip.Prefix]*change{}
	on := func(destination netip.Prefix) *change {
		if at[destination] == nil {
			at[destination] = &change{destination: destination, added: -1, removed: -1}
			changes = append(changes, at[destination])
		}
		return at[destination]
	}
	for k, r := range remove {
		destination := r.Destination.Masked()
		e, there := t.routes[destination]
		switch {
		case !there || !same(e.route(machines[e.instance]), r):
		case !cluster.HasPods(destination):
			errs[len(add)+k] = cloud.Errorf(cloud.KindConflict, "route to %s in %s is not from a pod CIDR of the cluster, so it is somebody else's", destination, t.id)
		default:
			c := on(destination)
			c.drop, c.removed = true, len(add)+k
		}
	}
	for k, r := range add {
		m, err := goal(machines, r, cluster.ID)
		if err != nil {
			errs[k] = err
			continue
		}
		destination := r.Destination.Masked()
		e, there := t.routes[destination]
		if c := at[destination]; c != nil {
			if c.to != nil {
				errs[k] = cloud.Errorf(cloud.KindInvalid, "route to %s was asked for twice, via %s and %s", destination, c.to.target, r.Target)
				continue
			}
			there = false
		}
		if there {
			is := e.route(machines[e.instance])
			switch {
			case e.instance == m.id && !is.Blackhole && m.takes(e):
				continue
			case !is.Ours && !is.Blackhole:
				errs[k] = cloud.Errorf(cloud.KindConflict, "somebody else's route in %s leads %s to %s; remove it there, or give the Node another pod CIDR", t.id, destination, is.Hop())
				continue
			}
			on(destination).drop = true
		}
		c := on(destination)
		c.to, c.added = m, k
	}
	return changes, errs
}

// same reports whether the routes lead to the same, however the provider ID is written.
func same(a, b cloud.Route) bool {
	if a.Blackhole || b.Blackhole {
		return a.Blackhole == b.Blackhole
	}
	x, errX := instanceOf(a)
	y, errY := instanceOf(b)
	return a.Target == b.Target || errX == nil && errY == nil && x == y
}

// goal is the instance that a route to be added leads to.
func goal(machines map[string]*machine, r cloud.Route, cluster string) (*machine, error) {
	id, err := instanceOf(r)
	if err != nil {
		return nil, err
	}
	m := machines[id]
	switch {
	case m != nil && !m.marked: // a Node may name any instance
		return nil, cloud.Errorf(cloud.KindInvalid, "route to %s: instance %s lacks the tag %s; tag it if it is the cluster's", r.Destination, id, tags.Key(cluster))
	case m == nil || !m.isThere(): // EC2's reads may lag behind; never "not found", which would be about the route
		return nil, cloud.Errorf(cloud.KindUnknown, "route to %s: EC2 shows no instance %s that it could lead to", r.Destination, id)
	case m.primary == "":
		return nil, cloud.Errorf(cloud.KindUnknown, "route to %s: instance %s has no primary network interface that it could lead to", r.Destination, id)
	}
	return m, nil
}
