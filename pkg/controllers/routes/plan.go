package routes

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// path is what makes two routes the same.
type path struct {
	destination netip.Prefix
	hop         cloud.Hop
}

func pathOf(r cloud.Route) path { return path{r.Destination.Masked(), r.Hop()} }

// plan is what a pass has to do.
//
// A route is the cluster's if the cloud has a record of it, or if it leads a Node's pod CIDR
// to that Node, now or when it was seen before (known); the latter are to be recorded
// (adopt), so that they can be deleted when their Node is gone. A blackhole is what became of a
// route that was known to the same CIDR. The cluster's routes to a CIDR
// that is no Node's are deleted where Guard lets them go (gone). Those to a Node's CIDR that do
// not lead there are deleted (remove), but not while that Node has no address to compare with.
// So are routes that lead the pod CIDR of one Node to another one: they contradict the
// cluster's own allocation, whoever made them; and blackholes, by which nobody is reached. Where
// a destination has one hop, the Node's own route takes their place. All others are somebody
// else's and stay.
type plan struct {
	add, adopt, remove, gone []cloud.Route
	// fitting are the paths of the list that lead a Node's pod CIDR to it.
	fitting map[path]bool
	// need says, by the Node's name, which routes it must have: those that are there, and
	// those to be added.
	need map[string][]path
	// problems are why a Node cannot have all its routes, by its name; silent are Nodes that
	// are only new, or that conflicts tell of. Those of strangers cannot have routes at all.
	problems map[string]string
	silent   map[string]bool
	stranger map[string]bool
	// conflicts are routes of others for a Node's pod CIDR, by the Node's name.
	conflicts map[string][]path
	// known are the paths of the list that lead a Node's pod CIDR to it, or did before.
	known map[path]bool
	// listed are all paths of the list, taken their destinations.
	listed map[path]bool
	taken  map[netip.Prefix]bool

	routing
}

// makePlan compares the cloud's routes with the Nodes.
func makePlan(list []cloud.Route, nodes []*corev1.Node, known map[path]bool, r routing) *plan {
	p := &plan{need: map[string][]path{}, problems: map[string]string{}, silent: map[string]bool{}, stranger: map[string]bool{},
		conflicts: map[string][]path{}, fitting: map[path]bool{}, known: map[path]bool{}, listed: map[path]bool{}, taken: map[netip.Prefix]bool{}, routing: r}
	hops, owners := p.index(nodes)
	there := map[path]cloud.Route{}
	for _, r := range list {
		at := pathOf(r)
		p.listed[at], p.taken[at.destination] = true, true
		was := knew(known, at)
		own := owners[at.destination]
		k := slices.IndexFunc(own, func(n *corev1.Node) bool { return slices.Contains(p.hopsOf(n), at.hop) })
		switch {
		case k >= 0:
			there[at], p.known[at], p.fitting[at] = r, true, true
			if !r.Ours && !r.Partial {
				r.Node = refOf(own[k])
				p.adopt = append(p.adopt, r)
			}
		case (r.Ours || was) && !hops[at.hop] && slices.ContainsFunc(own, func(n *corev1.Node) bool { return p.hopOf(n, at.destination) < 0 }):
			if was { // its Node does not say where it is now: pods may be reachable by the route still
				p.known[at] = true
			}
		case r.Ours || was || len(own) > 0 && (hops[at.hop] || r.Blackhole):
			p.drop(r, len(own) > 0)
			if was {
				p.known[at] = true // until it is gone
			}
		default:
			for _, n := range own {
				p.conflicts[n.Name] = append(p.conflicts[n.Name], at)
			}
		}
	}
	for _, n := range nodes {
		p.want(n, there)
	}
	return p
}

// knew reports whether the path was known before, or became a blackhole since.
func knew(known map[path]bool, at path) bool {
	if !at.hop.Blackhole {
		return known[at]
	}
	for other, was := range known {
		if was && other.destination == at.destination {
			return true
		}
	}
	return false
}

// drop plans the end of a route that leads to no Node, or not to the Node whose CIDR it has.
func (p *plan) drop(r cloud.Route, owned bool) {
	switch {
	case !owned:
		p.gone = append(p.gone, r)
	case p.OneHop && (r.Ours || r.Blackhole): // the Node's own replaces it
	default:
		p.remove = append(p.remove, r)
	}
}

// index returns the Nodes' hops, and whose the pod CIDRs are.
func (p *plan) index(nodes []*corev1.Node) (hops map[cloud.Hop]bool, owners map[netip.Prefix][]*corev1.Node) {
	hops, owners = map[cloud.Hop]bool{}, map[netip.Prefix][]*corev1.Node{}
	for _, n := range nodes {
		for _, h := range p.hopsOf(n) {
			hops[h] = true
		}
		for _, c := range podCIDRs(n) {
			owners[c] = append(owners[c], n)
		}
	}
	return hops, owners
}

// want plans the Node's own routes.
func (p *plan) want(n *corev1.Node, there map[path]cloud.Route) {
	if p.ToInstance && !p.owns(n) {
		p.stranger[n.Name] = true
		return
	}
	hops := p.hopsOf(n)
	for _, cidr := range podCIDRs(n) {
		at := path{destination: cidr}
		found := false
		for _, hop := range hops {
			if r, ok := there[path{cidr, hop}]; ok && !r.Partial {
				at, found = pathOf(r), true
				break
			}
		}
		if !found {
			k := p.hopOf(n, cidr)
			if k < 0 {
				p.problems[n.Name] = p.lacks(n, cidr)
				p.silent[n.Name] = isUninitialized(n)
				continue
			}
			if p.OneHop && slices.ContainsFunc(p.conflicts[n.Name], func(c path) bool { return c.destination == cidr }) {
				p.problems[n.Name], p.silent[n.Name] = "somebody else's route is in the way", true
				continue
			}
			at.hop = hops[k]
			p.add = append(p.add, cloud.Route{Destination: cidr, NextHop: at.hop.Addr, Target: at.hop.Target, Node: refOf(n)})
		}
		p.need[n.Name] = append(p.need[n.Name], at)
	}
}

// lacks says why no route can lead to the Node.
func (p *plan) lacks(n *corev1.Node, cidr netip.Prefix) string {
	if p.ToInstance {
		return fmt.Sprintf("node %s has no provider ID for a route from its pod CIDR %s", n.Name, cidr)
	}
	return fmt.Sprintf("node %s has no InternalIP of the IP family of its pod CIDR %s", n.Name, cidr)
}

// replaced tells routes to be removed whose destination gets another route from those that just go.
func (p *plan) replaced(remove []cloud.Route) (old, rest []cloud.Route) {
	again := map[netip.Prefix]bool{}
	for _, r := range p.add {
		again[r.Destination] = true
	}
	for _, r := range remove {
		if again[r.Destination.Masked()] {
			old = append(old, r)
		} else {
			rest = append(rest, r)
		}
	}
	return old, rest
}

// room tells routes to be added for which the table has room from the others. What takes the place of another one, which
// is there or is of old, or completes a partial one, needs none.
func (p *plan) room(old []cloud.Route) (fit, over []cloud.Route) {
	free, places := p.Max-len(p.listed), map[netip.Prefix]int{}
	for _, r := range old {
		places[r.Destination.Masked()]++
	}
	for _, r := range p.add {
		needs := !p.listed[pathOf(r)] && (!p.OneHop || !p.taken[r.Destination])
		switch {
		case p.Max <= 0 || !needs:
			fit = append(fit, r)
		case places[r.Destination] > 0:
			places[r.Destination]--
			fit = append(fit, r)
		case free > 0:
			free--
			fit = append(fit, r)
		default:
			over = append(over, r)
		}
	}
	return fit, over
}
