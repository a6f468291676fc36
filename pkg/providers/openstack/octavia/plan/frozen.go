package plan

import (
	"net/netip"
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
)

// A frozen spec is of a Service whose wish is not valid as a whole. What it has stays as it is, but
// for the members of its pools, which follow the Nodes: a Node that goes must not keep its traffic,
// whatever an annotation says.

// followNodes brings the Nodes into the pools of the Service's listeners. No pool is emptied.
func (d *treeDiff) followNodes(w *Desired) {
	first, _ := family.Members(w.Spec.Members, w.IsIPv6())
	second, _ := family.Members(w.Spec.Members, !w.IsIPv6())
	for _, l := range d.next.Listeners {
		p := l.Pool
		if !d.names.IsOurs(l, d.role) || p == nil || !d.names.isPool(p.Name) {
			continue
		}
		want, port, nodes := *p, w.portOf(l, p), first
		if w.Second && (d.ovn || l.Key().transport != ProtoTCP) {
			nodes = slices.Concat(first, second)
		}
		want.Members = w.members(nodes, port, w.checkOf(p))
		if len(w.Spec.Members) == 0 {
			want.Members = w.stillNodes(p.Members)
		}
		if port > 0 && len(want.Members) > 0 {
			d.pool(p, &want)
		}
	}
}

// stillNodes are those of members that are Nodes: which of these the Service selects is not known.
func (svc *Service) stillNodes(members []Member) []Member {
	nodes := map[netip.Addr]bool{}
	for _, c := range svc.Spec.Candidates {
		for _, a := range c.Addresses {
			nodes[a] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return !nodes[m.Endpoint().Addr()] })
}

// portOf is the node port of a listener: the Service's or, where it has no such port any more, the
// one that the members have.
func (svc *Service) portOf(l *Listener, p *Pool) int {
	for _, port := range svc.Spec.Ports {
		if (&Listener{Protocol: string(port.Protocol), Port: int(port.Port)}).Key() == l.Key() && port.NodePort > 0 {
			return int(port.NodePort)
		}
	}
	for _, m := range p.Members {
		return m.Port
	}
	return 0
}

// checkOf is where the members of a pool are checked, 0 for their port.
func (svc *Service) checkOf(p *Pool) int {
	if svc.Spec.HealthCheck != nil && p.Monitor != nil && p.Monitor.Type == MonitorHTTP {
		return int(svc.Spec.HealthCheck.Port)
	}
	for _, m := range p.Members {
		return m.MonitorPort
	}
	return 0
}
