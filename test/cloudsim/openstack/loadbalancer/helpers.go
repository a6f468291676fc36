package loadbalancer

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/forward"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// LoadBalancer is a load balancer with all below it, as tests look at it and add it past the API.
type LoadBalancer struct {
	ID, Name, Description, Provider string
	// Provisioning and Operating are its statuses.
	Provisioning, Operating string
	Tags                    []string
	VIP                     netip.Addr
	// AdditionalVIPs are those that have an address.
	AdditionalVIPs []netip.Addr
	VIPPortID      string
	FloatingIPs    []netip.Addr
	Listeners      []Listener
}

// Listener is a listener with its default pool.
type Listener struct {
	ID, Name, Protocol string
	Port               int
	Tags, AllowedCIDRs []string
	Pool               *Pool // nil for none
}

// Pool is a pool with its members and the type of its health monitor, "" for none.
type Pool struct {
	ID, Name, Protocol, Algorithm, Monitor string
	Members                                []Member
}

// Member is a member of a pool.
type Member struct {
	ID, Name  string
	At        netip.AddrPort
	Operating string
}

// LoadBalancers returns all load balancers in order of creation.
func (s *Octavia) LoadBalancers() []LoadBalancer {
	s.Lock()
	defer s.Unlock()
	var out []LoadBalancer
	for _, x := range byAge(s.lbs) {
		out = append(out, s.describeLB(x))
	}
	return out
}

func (s *Octavia) describeLB(x *loadBalancer) LoadBalancer {
	out := LoadBalancer{
		ID: x.id, Name: x.name, Description: x.description, Provider: x.provider, Provisioning: x.prov, Operating: x.oper,
		Tags: slices.Clone(x.tags), VIP: x.vip, VIPPortID: x.vipPort,
	}
	for _, v := range x.additional {
		if v.ip.IsValid() {
			out.AdditionalVIPs = append(out.AdditionalVIPs, v.ip)
		}
	}
	p, _ := s.network.Get(x.vipPort)
	for _, f := range p.FloatingIPs {
		out.FloatingIPs = append(out.FloatingIPs, f.IP)
	}
	for _, l := range x.listeners {
		y := Listener{ID: l.id, Name: l.name, Protocol: l.protocol, Port: l.port, Tags: slices.Clone(l.tags), AllowedCIDRs: slices.Clone(l.cidrs)}
		if p := l.pool; p != nil {
			y.Pool = &Pool{ID: p.id, Name: p.name, Protocol: p.protocol, Algorithm: p.algorithm}
			if p.monitor != nil {
				y.Pool.Monitor = p.monitor.typ
			}
			for _, m := range p.members {
				y.Pool.Members = append(y.Pool.Members, Member{ID: m.id, Name: m.name, At: netip.AddrPortFrom(m.address, uint16(m.port)), Operating: m.oper})
			}
		}
		out.Listeners = append(out.Listeners, y)
	}
	return out
}

// AddLoadBalancer adds an ACTIVE load balancer on the seeded subnet past the API, as another user of the project
// or an earlier controller may have left it. Of want it takes Name, Description, Provider (amphora by
// default), Tags, and of each listener Name, Protocol, Port and Tags.
func (s *Octavia) AddLoadBalancer(want LoadBalancer) (LoadBalancer, error) {
	s.Lock()
	defer s.Unlock()
	x := &loadBalancer{lbEntity: s.newLBEntity(s.opts.Project), provider: want.Provider, forwards: map[forward.Key]*forwarding{}, checks: map[*pool]*healthCheck{}}
	if x.provider == "" {
		x.provider = amphora
	}
	x.name, x.description, x.tags = want.Name, want.Description, slices.Clone(want.Tags)
	if err := s.makeVIP(x, core.FixedIPWish{SubnetID: s.opts.SubnetID}); err != nil {
		return LoadBalancer{}, fmt.Errorf("port of load balancer %q: %w", want.Name, err)
	}
	for _, w := range want.Listeners {
		l := &listener{lbEntity: s.newLBEntity(x.project), lb: x, protocol: w.Protocol, port: w.Port, limit: -1, timeouts: defaultTimeouts()}
		l.name, l.tags = w.Name, slices.Clone(w.Tags)
		x.listeners = append(x.listeners, l)
	}
	s.adopt(x)
	s.settle(x)
	return s.describeLB(x), nil
}

// DeleteLoadBalancer removes a load balancer with all below it at once and past the API; false when
// there is none with the id.
func (s *Octavia) DeleteLoadBalancer(id string) bool {
	s.Lock()
	defer s.Unlock()
	x := s.lbs[id]
	if x != nil {
		s.dropLB(x)
	}
	return x != nil
}

// SetProvisioningStatus puts a load balancer into a state, for example ERROR, or PENDING_UPDATE in which it
// stays until it is set to another; false when there is none with the id.
func (s *Octavia) SetProvisioningStatus(id, status string) bool {
	s.Lock()
	defer s.Unlock()
	x := s.lbs[id]
	if x != nil {
		x.prov = status
	}
	return x != nil
}
