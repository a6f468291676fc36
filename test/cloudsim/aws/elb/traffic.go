package elb

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/forward"
)

// connectTimeout is how long an instance may take to accept a connection; the next one gets it then.
const connectTimeout = 5 * time.Second

// headers are what load balancers add to requests.
var headers = []string{"X-Forwarded-For", "X-Forwarded-Port", "X-Forwarded-Proto"}

// Forwards is where load balancers listen on this machine, with where a client's traffic goes, nil for nowhere. What is encrypted does
// not listen: nobody has the keys of its certificates.
func (r *Region) Forwards(client netip.Addr) map[forward.Key]*forward.Target {
	r.lock()
	defer r.mu.Unlock()
	out := map[forward.Key]*forward.Target{}
	for _, b := range r.balancers.All() {
		for _, l := range b.Listeners {
			if l.Protocol != l.InstanceProtocol || l.Protocol != "TCP" && l.Protocol != "HTTP" {
				continue
			}
			for _, s := range b.Subnets {
				private, public := r.ec2.Located(s.interfaceID)
				var t *forward.Target
				if r.ec2.LetsIn(b.SecurityGroups, ec2.Flow{Protocol: "tcp", Port: l.Port, From: client}) {
					t = r.target(b, l, r.serving(b, s), private)
				}
				for _, a := range []netip.Addr{private, public} {
					if a.IsValid() {
						out[forward.Key{At: netip.AddrPortFrom(a, uint16(l.Port)), HTTP: l.Protocol == "HTTP"}] = t //nolint:gosec // a port
					}
				}
			}
		}
	}
	return out
}

// target is where traffic goes of the instances that serve: from the load balancer's own address.
func (r *Region) target(b *LoadBalancer, l Listener, serving []string, own netip.Addr) *forward.Target {
	t := &forward.Target{From: own, Connect: connectTimeout, Headers: headers}
	for _, p := range b.Policies {
		if p.Type == "ProxyProtocolPolicyType" && slices.Contains(b.Backends[l.InstancePort], p.Name) {
			t.Proxy = 1
		}
	}
	for _, id := range serving {
		flow := ec2.Flow{Protocol: "tcp", Port: l.InstancePort, From: own, Groups: b.SecurityGroups}
		if at, delivered := r.ec2.Deliver(id, flow); delivered {
			t.Backends = append(t.Backends, at)
		}
	}
	return t
}

// serving are the instances in service that a load balancer's node sends traffic to: those of its zone, or with cross-zone load balancing
// all.
func (r *Region) serving(b *LoadBalancer, s Subnet) []string {
	return slices.DeleteFunc(slices.Clone(b.Instances), func(id string) bool {
		found, err := r.ec2.Instances([]string{id})
		return err != nil || b.Attributes["CrossZoneLoadBalancing.Enabled"] != "true" && found[0].Zone != s.Zone ||
			r.Health(b, id).State != "InService"
	})
}

// Resolve is where the name of a load balancer leads on this machine: to its nodes that have somebody to send traffic to.
func (r *Region) Resolve(name string) []netip.Addr {
	r.lock()
	defer r.mu.Unlock()
	var out []netip.Addr
	for _, b := range r.balancers.Where(func(b *LoadBalancer) bool { return strings.EqualFold(b.DNSName, name) }) {
		for _, s := range b.Subnets {
			private, public := r.ec2.Located(s.interfaceID)
			if b.Scheme != "internal" {
				private = public
			}
			if private.IsValid() && len(r.serving(b, s)) > 0 {
				out = append(out, private)
			}
		}
	}
	return out
}
