package aws

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
)

const (
	annotations = "service.beta.kubernetes.io/aws-load-balancer-"
	certificate = "arn:aws:acm:eu-central-1:111122223333:certificate/12345678-1234-1234-1234-123456789012"
)

// Annotations are those of every Service.
func (k Kind) Annotations() cloud.Settings {
	if k == Network {
		return cloud.Settings{annotations + "type": "nlb"}
	}
	return nil
}

// Certificate are the annotations that ask for a certificate.
func Certificate(arn string) cloud.Settings { return cloud.Settings{annotations + "ssl-cert": arn} }

// Settings implements cloudtest.World.
func (Kind) Settings(_ context.Context, f cloudtest.Feature) (cloud.Settings, error) {
	switch f {
	case cloudtest.LoadBalancerHTTP:
		return cloud.Settings{annotations + "backend-protocol": "http"}, nil
	case cloudtest.LoadBalancerTLS:
		settings := Certificate(certificate)
		settings[annotations+"backend-protocol"] = "http"
		return settings, nil
	case cloudtest.LoadBalancerPROXY:
		return cloud.Settings{annotations + "target-group-attributes": "proxy_protocol_v2.enabled=true"}, nil
	case cloudtest.LoadBalancerPROXYv1:
		return cloud.Settings{annotations + "proxy-protocol": "*"}, nil
	case cloudtest.LoadBalancerInternal:
		return cloud.Settings{annotations + "internal": "true"}, nil
	case cloudtest.LoadBalancerIPv6, cloudtest.LoadBalancerDual:
		return nil, nil
	}
	return nil, cloudtest.ErrNoAnnotation
}

// UseLoadBalancer implements cloudtest.World.
func (Kind) UseLoadBalancer(string) cloud.Settings { return nil }

// MakeLoadBalancer implements cloudtest.World. No Service may use one of a user's.
func (Kind) MakeLoadBalancer(context.Context, string) (string, error) {
	return "", cloudtest.ErrNoAnnotation
}

// LoadBalancerID implements cloudtest.World: names are as good as IDs, as none is given twice.
func (Kind) LoadBalancerID(s *cloud.LoadBalancerStatus) string {
	if len(s.Ingress) == 0 {
		return ""
	}
	return s.Ingress[0].Hostname
}

// Resolve implements cloudtest.Resolver.
func (w *World) Resolve(_ context.Context, name string) ([]netip.Addr, error) {
	return w.sim.Resolve(name)
}

// find is the load balancer of a name, of either kind; both are nil where there is none.
func (w *World) find(id string) (*elbv2.LoadBalancer, *elb.LoadBalancer, error) {
	network, err := w.elbv2.LoadBalancers(nil, nil)
	classic, classicErr := w.elb.LoadBalancers(nil)
	for _, b := range network {
		if b.DNSName == id {
			return b, nil, nil
		}
	}
	for _, b := range classic {
		if b.DNSName == id {
			return nil, b, nil
		}
	}
	return nil, nil, errors.Join(err, classicErr)
}

// DeleteLoadBalancer implements cloudtest.World. Target groups are no part of it.
func (w *World) DeleteLoadBalancer(_ context.Context, id string) error {
	network, classic, err := w.find(id)
	switch {
	case network != nil:
		return w.elbv2.DeleteLoadBalancer(network.ARN)
	case classic != nil:
		w.elb.Delete(classic.Name)
	}
	return err
}

// LoadBalancer implements cloudtest.World.
func (w *World) LoadBalancer(_ context.Context, id string) (*cloudtest.LoadBalancer, error) {
	network, classic, err := w.find(id)
	switch {
	case network != nil:
		return w.readNetwork(network)
	case classic != nil:
		return w.readClassic(classic)
	}
	return nil, err
}

// addresses adds those of a load balancer's network interfaces, which have its name in their descriptions.
func (w *World) addresses(out *cloudtest.LoadBalancer, name string) error {
	all, err := w.region.Interfaces(nil)
	for _, n := range all {
		if n.Description != "ELB "+name {
			continue
		}
		for text, to := range map[string]*[]netip.Addr{n.PrivateIP(): &out.Private, n.PublicIP: &out.Public} {
			if a, err := netip.ParseAddr(text); err == nil {
				*to = append(*to, a)
			}
		}
		for _, six := range n.IPv6 {
			a, err := netip.ParseAddr(six)
			if err != nil {
				return err
			}
			out.Private = append(out.Private, a)
		}
	}
	return err
}

func (w *World) readNetwork(b *elbv2.LoadBalancer) (*cloudtest.LoadBalancer, error) {
	if b.State != "active" {
		return nil, fmt.Errorf("load balancer %s is left in state %s", b.Name, b.State)
	}
	out := &cloudtest.LoadBalancer{ID: b.DNSName, Hostname: b.DNSName}
	if err := w.addresses(out, b.ARN[strings.Index(b.ARN, "net/"):]); err != nil {
		return nil, err
	}
	listeners, err := w.elbv2.Listeners(nil, b.ARN)
	if err != nil {
		return nil, err
	}
	for _, l := range listeners {
		v, err := w.readListener(b, l)
		if err != nil {
			return nil, err
		}
		out.Listeners = append(out.Listeners, *v)
	}
	return out, nil
}

func (w *World) readListener(b *elbv2.LoadBalancer, l *elbv2.Listener) (*cloudtest.Listener, error) {
	groups, err := w.elbv2.TargetGroups([]string{l.TargetGroupARN}, nil, "")
	if err != nil {
		return nil, err
	}
	g := groups[0]
	v := &cloudtest.Listener{Port: int32(l.Port), Protocol: corev1.ProtocolTCP, TLS: l.Protocol == "TLS", Affinity: g.Attributes["stickiness.enabled"] == "true"} //nolint:gosec // a port
	if l.Protocol == "UDP" {
		v.Protocol = corev1.ProtocolUDP
	}
	if g.Attributes["proxy_protocol_v2.enabled"] == "true" {
		v.Proxy = 2
	}
	if g.Check.Protocol != "TCP" {
		v.CheckPath = g.Check.Path
	}
	for _, t := range g.Targets {
		if t.Draining() {
			continue
		}
		check := t.Port
		if n, err := strconv.Atoi(g.Check.Port); err == nil {
			check = n
		}
		if v.CheckPath != "" {
			v.CheckPort = int32(check) //nolint:gosec // a port
		}
		m, err := w.target(b, g, t, opening{"tcp", check})
		if err != nil {
			return nil, err
		}
		if v.Clients = m.clients; m.reached {
			v.Members = append(v.Members, m.address)
		}
	}
	if len(b.SecurityGroups) > 0 {
		v.Clients, err = w.clients(b.SecurityGroups, opening{strings.ToLower(string(v.Protocol)), l.Port})
	}
	v.Clients = everyone(v.Clients)
	return v, err
}

// member is a target as traffic meets it.
type member struct {
	address netip.AddrPort
	// clients are those that its security groups let in, but for the load balancer itself.
	clients []netip.Prefix
	reached bool
}

// target is a target of a network load balancer: reached where its security groups let in some clients, and the health check of all the
// load balancer's subnets.
func (w *World) target(b *elbv2.LoadBalancer, g *elbv2.TargetGroup, t elbv2.Target, check opening) (member, error) {
	six, traffic := g.IPAddressType == "ipv6", opening{"tcp", t.Port}
	if g.Protocol == "UDP" {
		traffic.protocol = "udp"
	}
	instances, err := w.region.Instances([]string{t.ID})
	if err != nil {
		return member{}, err
	}
	out, groups := member{address: addressOf(instances[0], six, traffic.port)}, groupsOf(instances[0])
	if out.clients, err = w.clients(groups, traffic); err != nil {
		return out, err
	}
	checkers, err := w.clients(groups, check)
	if err != nil {
		return out, err
	}
	out.reached = len(out.clients) > 0
	for _, m := range b.Mappings {
		subnets, err := w.region.Subnets([]string{m.SubnetID})
		if err != nil {
			return out, err
		}
		cidr := subnets[0].CIDR
		if six {
			cidr = subnets[0].IPv6CIDR
		}
		subnet, err := netip.ParsePrefix(cidr)
		if err != nil {
			return out, err
		}
		out.reached = out.reached && slices.ContainsFunc(checkers, func(p netip.Prefix) bool {
			return p.Bits() <= subnet.Bits() && p.Contains(subnet.Addr())
		})
		out.clients = slices.DeleteFunc(out.clients, func(p netip.Prefix) bool { return p == subnet })
	}
	return out, nil
}

func addressOf(i *ec2.Instance, six bool, port int) netip.AddrPort {
	text := i.PrivateIP
	if n := i.Primary(); six && n != nil && len(n.IPv6) > 0 {
		text = n.IPv6[0]
	}
	a, _ := netip.ParseAddr(text)              // none of one that is gone
	return netip.AddrPortFrom(a, uint16(port)) //nolint:gosec // a port
}

func groupsOf(i *ec2.Instance) []string {
	if n := i.Primary(); n != nil {
		return n.Groups
	}
	return nil
}

func (w *World) readClassic(b *elb.LoadBalancer) (*cloudtest.LoadBalancer, error) {
	out := &cloudtest.LoadBalancer{ID: b.DNSName, Hostname: b.DNSName}
	if err := w.addresses(out, b.Name); err != nil {
		return nil, err
	}
	for _, l := range b.Listeners {
		http, tls := strings.HasPrefix(l.Protocol, "HTTP"), l.Protocol == "HTTPS" || l.Protocol == "SSL"
		v := cloudtest.Listener{Port: int32(l.Port), Protocol: corev1.ProtocolTCP, HTTP: http, ForwardedFor: http && !tls, TLS: tls} //nolint:gosec // a port
		for _, name := range b.Backends[l.InstancePort] {
			if slices.ContainsFunc(b.Policies, func(p elb.Policy) bool { return p.Name == name && p.Type == "ProxyProtocolPolicyType" }) {
				v.Proxy = 1
			}
		}
		if protocol, rest, _ := strings.Cut(b.Check.Target, ":"); strings.HasPrefix(protocol, "HTTP") {
			port, path, _ := strings.Cut(rest, "/")
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				return nil, err
			}
			v.CheckPath, v.CheckPort = "/"+path, int32(n) //nolint:gosec // a port
		}
		clients, err := w.clients(b.SecurityGroups, opening{"tcp", l.Port})
		if err == nil && len(clients) == 0 {
			err = fmt.Errorf("nobody is let in to port %d of load balancer %s", l.Port, b.Name)
		}
		if err != nil {
			return nil, err
		}
		v.Clients = everyone(clients)
		for _, id := range b.Instances {
			instances, err := w.region.Instances([]string{id})
			if err != nil {
				return nil, err
			}
			reached, err := w.letsGroups(groupsOf(instances[0]), b.SecurityGroups, opening{"tcp", l.InstancePort})
			if err != nil {
				return nil, err
			}
			if reached {
				v.Members = append(v.Members, addressOf(instances[0], false, l.InstancePort))
			}
		}
		out.Listeners = append(out.Listeners, v)
	}
	return out, nil
}
