package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
)

// Op is what a change does.
type Op int

// The changes, see Diff.
const (
	// CreateGroup makes Group, ModifyGroup gives the one of its ARN its health check.
	CreateGroup Op = iota
	ModifyGroup
	// SetGroupAttributes sets Attributes of the target group.
	SetGroupAttributes
	// Register and Deregister change the target group's Targets.
	Register
	Deregister
	// CreateListener makes Listener, ModifyListener makes that of the ARN what Listener is, DeleteListener deletes it.
	CreateListener
	ModifyListener
	DeleteListener
	// DeleteGroup deletes the target group.
	DeleteGroup
	// SetAttributes sets Attributes of the load balancer.
	SetAttributes
)

// Change is one request.
type Change struct {
	Op       Op
	Listener Listener
	// Group is the target group that is changed, or that the listener sends to. One that is made by a change before has no ARN yet.
	Group      *TargetGroup
	Targets    []Target
	Attributes map[string]string
}

// String says what is changed, for logs and events.
func (c Change) String() string {
	switch c.Op {
	case CreateGroup:
		return "target group " + c.Group.Name + " was made"
	case ModifyGroup:
		return "the health check of target group " + c.Group.Name + " was set"
	case SetGroupAttributes:
		return "attributes of target group " + c.Group.Name + " were set: " + strings.Join(slices.Sorted(maps.Keys(c.Attributes)), ", ")
	case Register:
		return fmt.Sprintf("%d targets of target group %s were registered", len(c.Targets), c.Group.Name)
	case Deregister:
		return fmt.Sprintf("%d targets of target group %s were deregistered", len(c.Targets), c.Group.Name)
	case CreateListener:
		return fmt.Sprintf("the listener of port %d was made", c.Listener.Port)
	case ModifyListener:
		return fmt.Sprintf("the listener of port %d was set", c.Listener.Port)
	case DeleteListener:
		return fmt.Sprintf("the listener of port %d, which is none of the Service's, was deleted", c.Listener.Port)
	case DeleteGroup:
		return "target group " + c.Group.Name + ", which is not used, was deleted"
	case SetAttributes:
		return "attributes were set: " + strings.Join(slices.Sorted(maps.Keys(c.Attributes)), ", ")
	}
	return ""
}

// diff collects the changes for a load balancer.
type diff struct {
	seen    *Balancer
	members []string
	changes []Change
	// used are the target groups that listeners go on to use, by ARN.
	used map[string]bool
	// kept are the listeners that are there and wanted, by ARN.
	kept map[string]bool
}

// Diff tells the changes that make what is seen the wish, in the order in which they must be made: what serves is there before
// what it takes the place of goes. members are the IDs of the instances behind the load balancer. Without changes nothing has
// to be done.
func Diff(seen *Balancer, w *Wish, members []string) []Change {
	d := &diff{seen: seen, members: members, used: map[string]bool{}, kept: map[string]bool{}}
	listeners := slices.Clone(w.Listeners)
	found := d.match(listeners)
	for i := range listeners {
		d.keep(&listeners[i], found[i])
	}
	for i := range listeners {
		d.listener(listeners[i], found[i])
	}
	for _, l := range seen.Listeners {
		if !d.kept[l.ARN] {
			d.add(Change{Op: DeleteListener, Listener: l})
		}
	}
	for _, g := range seen.Groups {
		if !d.used[g.ARN] && g.isOnly(seen.ARN) {
			d.add(Change{Op: DeleteGroup, Group: g})
		}
	}
	if set := differing(seen.Attributes, w.Attributes); len(set) > 0 {
		d.add(Change{Op: SetAttributes, Attributes: set})
	}
	return d.changes
}

// Members tells the changes by which each target group of the load balancer gets the members, at its own port.
func Members(seen *Balancer, members []string) []Change {
	d := &diff{seen: seen, members: members}
	for _, g := range seen.Groups {
		if slices.Contains(g.Balancers, seen.ARN) {
			d.targets(g)
		}
	}
	return d.changes
}

func (d *diff) add(c Change) { d.changes = append(d.changes, c) }

// isOnly reports whether no other load balancer uses the target group.
func (g *TargetGroup) isOnly(balancer string) bool {
	return !slices.ContainsFunc(g.Balancers, func(arn string) bool { return arn != balancer })
}

// match finds for each listener that is wanted the one that is there: on its port, of its protocol, or else of one that is not
// wanted there, as a port has one listener. Nil where there is none.
func (d *diff) match(wanted []Listener) []*Listener {
	out := make([]*Listener, len(wanted))
	for _, exact := range []bool{true, false} {
		for i, w := range wanted {
			for j := range d.seen.Listeners {
				l := &d.seen.Listeners[j]
				if out[i] == nil && !d.kept[l.ARN] && l.Port == w.Port && (l.Protocol == w.Protocol || !exact) {
					out[i], d.kept[l.ARN] = l, true
				}
			}
		}
	}
	return out
}

// keep chooses the target group of a listener: the one that it has if that fits, else another one of the load balancer's or left
// over that does. It becomes Wanted.ARN.
func (d *diff) keep(w *Listener, there *Listener) {
	wanted := *w.Wanted
	w.Wanted = &wanted
	fits := func(g *TargetGroup) bool {
		return g != nil && !d.used[g.ARN] && g.isOnly(d.seen.ARN) && g.fits(&wanted)
	}
	var chosen *TargetGroup
	if there != nil && fits(d.seen.Group(there.Group)) {
		chosen = d.seen.Group(there.Group)
	}
	for _, g := range d.seen.Groups {
		if chosen == nil && fits(g) {
			chosen = g
		}
	}
	if chosen != nil {
		wanted.ARN, d.used[chosen.ARN] = chosen.ARN, true
	}
}

// fits reports whether a target group can become the wanted one. What of it cannot be changed, in part by custom, is in its name.
func (g *TargetGroup) fits(w *TargetGroup) bool {
	if g.Port != w.Port || g.Protocol != w.Protocol || g.IPv6 != w.IPv6 {
		return false
	}
	return g.Name == w.Name || strings.EqualFold(g.Check.Protocol, w.Check.Protocol) && g.Check.Interval == w.Check.Interval
}

func (d *diff) listener(w Listener, there *Listener) {
	g := w.Wanted
	if have := d.seen.Group(g.ARN); have != nil {
		d.group(have, g)
	} else {
		d.add(Change{Op: CreateGroup, Group: g, Listener: w})
		d.attributes(g, g.Attributes, NewGroupAttributes())
		d.targets(g)
	}
	if there == nil {
		d.add(Change{Op: CreateListener, Listener: w, Group: g})
		return
	}
	same := there.Group == g.ARN && there.Protocol == w.Protocol
	if w.Protocol == TLS {
		same = same && there.Certificate == w.Certificate && (w.Policy == "" || there.Policy == w.Policy)
	}
	if !same {
		w.ARN = there.ARN
		d.add(Change{Op: ModifyListener, Listener: w, Group: g})
	}
}

// group changes a target group that is there.
func (d *diff) group(have, w *TargetGroup) {
	if !have.Check.is(w.Check) {
		next := *w
		next.ARN, next.Name = have.ARN, have.Name
		d.add(Change{Op: ModifyGroup, Group: &next})
	}
	d.attributes(have, w.Attributes, have.Attributes)
	d.targets(have)
}

func (d *diff) attributes(g *TargetGroup, wanted, have map[string]string) {
	if set := differing(have, wanted); len(set) > 0 {
		d.add(Change{Op: SetGroupAttributes, Group: g, Attributes: set})
	}
}

func differing(have, wanted map[string]string) map[string]string {
	set := map[string]string{}
	for key, value := range wanted {
		if have[key] != value {
			set[key] = value
		}
	}
	return set
}

// is reports whether a check is as wanted.
func (c HealthCheck) is(w HealthCheck) bool {
	if !strings.EqualFold(c.Protocol, w.Protocol) || c.Interval != w.Interval || c.Healthy != w.Healthy || c.Unhealthy != w.Unhealthy {
		return false
	}
	if w.Protocol != protocolTCP && c.Path != w.Path && (w.Path != "" || c.Path != "/") { // AWS makes an empty path "/"
		return false
	}
	return c.Port == w.Port && (w.Timeout == 0 || c.Timeout == w.Timeout)
}

// targets registers and deregisters what differs, in this order.
func (d *diff) targets(g *TargetGroup) {
	wanted, have := map[Target]bool{}, map[Target]bool{}
	for _, t := range g.Targets {
		have[t] = true
	}
	var add, remove []Target
	for _, id := range d.members {
		t := Target{ID: id, Port: g.Port}
		if wanted[t] = true; !have[t] {
			add = append(add, t)
		}
	}
	for _, t := range g.Targets {
		if !wanted[t] {
			remove = append(remove, t)
		}
	}
	if len(add) > 0 {
		d.add(Change{Op: Register, Group: g, Targets: add})
	}
	if len(remove) > 0 {
		d.add(Change{Op: Deregister, Group: g, Targets: remove})
	}
}

// HealthPorts are the ports that are checked on Nodes, by TCP at least.
func (w *Wish) HealthPorts() []int32 {
	var out []int32
	for _, l := range w.Listeners {
		port := l.Wanted.Port
		if p := l.Wanted.Check.Port; p != annotations.TrafficPort {
			_, _ = fmt.Sscan(p, &port) // a number, by the annotations' table
		}
		out = append(out, port)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// CrossesZones reports whether traffic is sent to targets of all zones from each.
func (w *Wish) CrossesZones() bool { return w.Attributes[crossZone] == "true" }

// NodePorts are the ports on Nodes that clients' traffic goes to, and their protocol as rules of security groups have it.
func (w *Wish) NodePorts() (ports []int32, protocol string) {
	protocol = "tcp"
	for _, l := range w.Listeners {
		ports = append(ports, l.Wanted.Port)
		if l.Wanted.Protocol == protocolUDP {
			protocol = "udp"
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports), protocol
}

// NewAttributes are those of a load balancer that has just been made, as far as a Service can state them.
func NewAttributes() map[string]string {
	return map[string]string{crossZone: "false", logEnabled: "false", logBucket: "", logPrefix: ""}
}

// NewGroupAttributes are those of a target group that has just been made, as far as a Service can state them.
func NewGroupAttributes() map[string]string {
	return map[string]string{preserveClientIP: "true", proxyProtocol: "false"}
}
