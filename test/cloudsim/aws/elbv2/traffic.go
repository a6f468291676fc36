package elbv2

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/forward"
)

// connectTimeout is how long a target may take to accept a connection; the next one gets it then.
const connectTimeout = 5 * time.Second

// Forwards is where network load balancers listen on this machine, with where a client's traffic goes, nil for nowhere. What is
// encrypted does not listen: nobody has the keys of its certificates.
func (r *Region) Forwards(client netip.Addr) map[forward.Key]*forward.Target {
	r.lock()
	defer r.mu.Unlock()
	out := map[forward.Key]*forward.Target{}
	for _, l := range r.listeners.All() {
		b, g := r.balancers.Get(l.LoadBalancerARN), r.groups.Get(l.TargetGroupARN)
		for _, protocol := range transports[l.Protocol] {
			for _, m := range b.Mappings {
				private, public := r.ec2.Located(m.interfaceID)
				flow := ec2.Flow{Protocol: protocol, Port: l.Port, From: client, Groups: b.SecurityGroups}
				var t *forward.Target
				if strings.HasPrefix(b.State, "active") && r.ec2.LetsIn(b.SecurityGroups, flow) {
					t = r.target(g, r.serving(b, g, m), flow, private)
				}
				for _, a := range []netip.Addr{private, public} {
					if a.IsValid() {
						out[forward.Key{At: netip.AddrPortFrom(a, uint16(l.Port)), UDP: protocol == "udp"}] = t //nolint:gosec // a port
					}
				}
			}
		}
	}
	return out
}

// transports are what comes to listeners of a protocol.
var transports = map[string][]string{"TCP": {"tcp"}, "UDP": {"udp"}, "TCP_UDP": {"tcp", "udp"}}

// target is where traffic goes of those that serve: from the client's address, or the load balancer's.
func (r *Region) target(g *TargetGroup, serving []Target, flow ec2.Flow, own netip.Addr) *forward.Target {
	t := &forward.Target{From: own, Connect: connectTimeout}
	if g.Attributes["preserve_client_ip.enabled"] == "true" {
		t.From = flow.From
	}
	if g.Attributes["proxy_protocol_v2.enabled"] == "true" {
		t.Proxy = 2
	}
	flow.From = t.From
	for _, x := range serving {
		flow.Port = x.Port
		if at, delivered := r.ec2.Deliver(x.ID, flow); delivered {
			t.Backends = append(t.Backends, at)
		}
	}
	return t
}

// serving are the healthy targets that a load balancer's node sends traffic to: those of its zone, or with cross-zone load balancing all.
// Locked.
func (r *Region) serving(b *LoadBalancer, g *TargetGroup, m Mapping) []Target {
	crossing := g.Attributes["load_balancing.cross_zone.enabled"]
	if crossing == "use_load_balancer_configuration" {
		crossing = b.Attributes["load_balancing.cross_zone.enabled"]
	}
	return slices.DeleteFunc(slices.Clone(g.Targets), func(t Target) bool {
		found, err := r.ec2.Instances([]string{t.ID})
		return err != nil || crossing != "true" && found[0].Zone != m.Zone || r.healthOf(g, t).State != "healthy"
	})
}

// Resolve is where the name of a load balancer leads on this machine: to its nodes that have somebody to send traffic to.
func (r *Region) Resolve(name string) []netip.Addr {
	r.lock()
	defer r.mu.Unlock()
	var out []netip.Addr
	for _, b := range r.balancers.Where(func(b *LoadBalancer) bool { return strings.EqualFold(b.DNSName, name) }) {
		for _, m := range b.Mappings {
			private, public := r.ec2.Located(m.interfaceID)
			if b.Scheme != "internal" {
				private = public
			}
			if private.IsValid() && r.listeners.Any(func(l *Listener) bool {
				return l.LoadBalancerARN == b.ARN && len(r.serving(b, r.groups.Get(l.TargetGroupARN), m)) > 0
			}) {
				out = append(out, private)
			}
		}
	}
	return out
}
