package loadbalancer

import (
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/loadbalancer/schema"
)

// mutable refuses changes of what belongs to a load balancer that is not ACTIVE.
func (x *loadBalancer) mutable() error {
	if x.prov != active {
		return schema.ClientFault(http.StatusConflict, "Load Balancer %s is immutable and cannot be updated.", x.id)
	}
	return nil
}

// mutable refuses changes of a pool's members and monitor while the pool is not ACTIVE.
func (x *pool) mutable() error {
	if x.stuck {
		return schema.ClientFault(http.StatusConflict, "Pool %s is immutable and cannot be updated.", x.id)
	}
	return x.lb.mutable()
}

// strand leaves the children of a fully populated create as Zed's amphora driver does without a jobboard
// (its default): the worker loses the list of listeners on its way to the flow, so that the load balancer
// becomes ACTIVE, but its children stay PENDING_CREATE and the amphora is not told of them. Any later
// change of the load balancer or a child tells the amphora of all; only what it changes becomes ACTIVE.
func (s *Octavia) strand(lb *loadBalancer) {
	if lb.provider != amphora || s.opts.Jobboard {
		return
	}
	for _, x := range lb.tree() {
		if x != lbItem(lb) {
			x.root().stuck, lb.stranded = true, true
		}
	}
}

// inCreation reports whether the data plane does not know an object yet.
func inCreation(x lbItem) bool {
	e := x.root()
	return e.prov == pendingCreate && (!e.stuck || x.owner().stranded)
}

// pend marks objects as changing, and their load balancer with them; it becomes ACTIVE again after
// the configured delay.
func (s *Octavia) pend(lb *loadBalancer, status string, items ...lbItem) {
	if lb.prov != pendingCreate {
		lb.prov = pendingUpdate
	}
	fails := false
	for _, x := range items {
		x.root().prov, x.root().stuck = status, false
		l, is := x.(*listener)
		fails = fails || is && status == pendingCreate && l.unguardable()
	}
	s.After(s.octaviaDelay(), func() {
		s.settle(lb)
		for _, l := range lb.listeners {
			if fails {
				l.prov = inError
			}
		}
	})
}

// touch marks what else a change reaches: pools and the listeners that use them.
func touch(pools ...*pool) {
	for _, p := range pools {
		if p.prov == active {
			p.prov = pendingUpdate
		}
		for _, l := range p.users() {
			if l.prov == active || l.prov == inError || l.stuck && !p.stuck {
				l.prov, l.stuck = pendingUpdate, false
			}
		}
	}
}

func (s *Octavia) octaviaDelay() time.Duration {
	if s.opts.Delay != 0 {
		return s.opts.Delay
	}
	return s.StateDelay
}

// settle ends what is pending in a load balancer's tree; lock held. Only one change is ever pending in a
// tree, since others are refused meanwhile.
func (s *Octavia) settle(lb *loadBalancer) {
	if s.lbs[lb.id] != lb {
		return
	}
	if lb.prov == pendingDelete {
		s.dropLB(lb)
		return
	}
	first := lb.prov == pendingCreate
	if !first {
		lb.stranded = false
	}
	for _, x := range lb.tree() {
		e := x.root()
		if e.stuck {
			continue
		}
		switch e.prov {
		case pendingDelete:
			s.drop(x)
			continue
		case pendingCreate, pendingUpdate:
			e.prov, e.updated = active, time.Now().UTC()
		}
		e.oper = restingStatus(x)
	}
	if first && lb.provider == amphora {
		// The group belongs to the services' project, and the tenant does not see it.
		lb.group = s.network.Guard(lb.vipPort, "lb-"+lb.id)
	}
	for _, p := range lb.pools {
		if p.monitor != nil {
			p.summarize()
		}
	}
	if !s.forwardLB(lb) {
		lb.prov, lb.oper = inError, inError
	}
}

// unguardable reports whether Zed's amphora driver fails to open a listener's port: it makes each rule of
// allowed_cidrs for the families of all VIPs, and Neutron refuses a CIDR of the other family. The revert puts all
// listeners of the load balancer in ERROR; a change of a pool makes those that use it ACTIVE again.
func (x *listener) unguardable() bool {
	return x.lb.provider == amphora && len(x.cidrs) > 0 && x.lb.hasFamily(netip.IPv4Unspecified()) && x.lb.hasFamily(netip.IPv6Unspecified())
}

// restingStatus is the operating status of an object as far as health checks do not tell.
func restingStatus(x lbItem) string {
	if m, is := x.(*member); is {
		if m.pool.monitor == nil {
			return noMonitor
		}
		if m.oper == noMonitor {
			return offline // until it is checked
		}
		return m.oper
	}
	if !x.root().adminUp {
		return offline
	}
	return online
}

// drop removes an object below a load balancer.
func (s *Octavia) drop(x lbItem) {
	switch x := x.(type) {
	case *listener:
		x.lb.listeners = without(x.lb.listeners, x)
		delete(s.listeners, x.id)
	case *pool:
		for _, l := range x.users() {
			l.pool = nil
		}
		for _, m := range x.members {
			delete(s.members, m.id)
		}
		if x.monitor != nil {
			delete(s.monitors, x.monitor.id)
		}
		x.lb.pools = without(x.lb.pools, x)
		delete(s.pools, x.id)
	case *member:
		x.pool.members = without(x.pool.members, x)
		delete(s.members, x.id)
	case *monitor:
		x.pool.monitor = nil
		delete(s.monitors, x.id)
	}
}

// without returns a new slice without an element.
func without[T comparable](in []T, x T) []T {
	return slices.DeleteFunc(slices.Clone(in), func(y T) bool { return y == x })
}

// dropLB removes a load balancer with all below it, its VIP's port and its security group.
func (s *Octavia) dropLB(lb *loadBalancer) {
	for _, x := range lb.tree() {
		if x != lbItem(lb) {
			s.drop(x)
		}
	}
	delete(s.lbs, lb.id)
	s.stopForwards(lb)
	if _, is := s.network.Get(lb.vipPort); is && lb.ownsPort {
		s.network.Remove(lb.vipPort)
	}
	s.network.Unguard(lb.vipPort, lb.group)
}
