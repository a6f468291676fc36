package cloudtest

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// serves is the check of a feature that a Service asks for: it is served as asked for, and once
// deleted nothing is left.
func serves(f Feature, what string, shape func(*service), special func(*Listener)) feature {
	return feature{name: f, what: what, check: func(t *T, x *suite) { x.checkServed(t, f, shape, special) }}
}

func (x *suite) checkServed(t *T, f Feature, shape func(*service), special func(*Listener)) {
	p, s := x.start(t), x.service(t, string(f))
	if shape != nil {
		shape(s)
	}
	s.ensure(p)
	s.check(special)
	s.delete(p)
	s.wantNothing("after the deletion")
}

// checkTLS: what is inside is HTTP wherever the cloud balances that.
func checkTLS(t *T, x *suite) {
	_, lacksHTTP := x.Unsupported[LoadBalancerHTTP]
	x.checkServed(t, LoadBalancerTLS, asking(LoadBalancerTLS), func(l *Listener) { l.HTTP, l.TLS = !lacksHTTP, true })
}

func protocol(p corev1.Protocol) func(*service) {
	return func(s *service) { s.spec.Ports[0].Protocol = p }
}

func asking(f Feature) func(*service) { return func(s *service) { s.ask(f) } }

func loadBalancerFeatures() []feature {
	return append([]feature{
		serves(LoadBalancerTCP, "A TCP port is served by all nodes and taken back without a trace", nil, nil),
		{name: LoadBalancerTraffic, what: "Clients reach the nodes of a Service, and no others", check: checkTraffic},
		serves(LoadBalancerUDP, "UDP", protocol(corev1.ProtocolUDP), nil),
		serves(LoadBalancerSCTP, "SCTP", protocol(corev1.ProtocolSCTP), nil),
		serves(LoadBalancerHTTP, "HTTP with the header X-Forwarded-For", asking(LoadBalancerHTTP), func(l *Listener) { l.HTTP, l.ForwardedFor = true, true }),
		{name: LoadBalancerTLS, what: "The load balancer ends TLS with a certificate of the cloud's key store", check: checkTLS},
		serves(LoadBalancerPROXY, "PROXY protocol, version 2", asking(LoadBalancerPROXY), func(l *Listener) { l.Proxy = 2 }),
		serves(LoadBalancerPROXYv1, "PROXY protocol, version 1", asking(LoadBalancerPROXYv1), func(l *Listener) { l.Proxy = 1 }),
		serves(LoadBalancerSources, "`spec.loadBalancerSourceRanges`", func(s *service) {
			s.spec.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.7/32")}
		}, nil),
		{name: LoadBalancerAffinity, what: "Session affinity ClientIP, switched on and off again", check: checkAffinity},
		{name: LoadBalancerLocal, what: "`externalTrafficPolicy: Local`: members are asked over HTTP whether they have endpoints", check: checkLocal},
		{name: LoadBalancerInternal, what: "Internal: no public address", check: checkInternal},
		{name: LoadBalancerInward, what: "A Service that is served becomes internal, and gives up its public address", check: checkInward},
		{name: LoadBalancerStatic, what: "A public address of the user, who keeps it, by `spec.loadBalancerIP` or an annotation", check: checkStatic},
		{name: LoadBalancerHostname, what: "A host name is published in place of the address", check: checkHostname},
		serves(LoadBalancerIPv6, "An IPv6 Service", func(s *service) {
			s.ask(LoadBalancerIPv6)
			s.spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
		}, nil),
		{name: LoadBalancerDual, what: "A dual-stack Service has an address of each family", check: checkDual},
	}, changeFeatures()...)
}

func changeFeatures() []feature {
	return []feature{
		{name: LoadBalancerPorts, what: "Ports come, go and change on a load balancer that serves", check: checkPorts},
		{name: LoadBalancerMembers, what: "Nodes come and go", silent: true, check: checkMembers},
		{name: LoadBalancerFrozen, what: "Of a Service that is no longer valid the members still follow the Nodes, and nothing else changes", silent: true, check: checkFrozen},
		{name: LoadBalancerSame, what: "What is as wanted already costs no changing call, also after a restart", check: checkIdempotent},
	}
}

func checkAffinity(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerAffinity))
	for _, timeout := range []time.Duration{time.Hour, 0, 3 * time.Hour} {
		s.spec.SessionAffinityTimeout = timeout
		s.ensure(p)
		s.check(nil)
	}
}

func checkLocal(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerLocal))
	s.ensure(p)
	s.spec.HealthCheck = &cloud.HealthCheck{Port: 32123, Path: "/healthz"}
	s.ensure(p)
	s.check(nil)
	s.spec.HealthCheck = nil
	s.ensure(p)
	s.check(nil)
}

func checkInternal(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerInternal))
	s.ask(LoadBalancerInternal)
	s.ensure(p)
	s.check(nil)
	s.wantPrivate()
}

func checkInward(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerInward))
	s.ensure(p)
	if lb := s.read(); len(lb.Public) == 0 {
		t.spoil("a load balancer that is not internal has no public address")
	}
	s.ask(LoadBalancerInternal)
	s.ensure(p)
	s.check(nil)
	s.wantPrivate()
}

// wantPrivate wants the load balancer to have no public address.
func (s *service) wantPrivate() {
	if lb := s.read(); len(lb.Public) > 0 {
		s.t.Errorf("the internal load balancer has the public addresses %v", lb.Public)
	}
}

func checkStatic(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerStatic))
	address := must[Address](t)(x.World.ReserveAddress(t.Ctx))
	released := false
	t.Cleanup(func() {
		if !released {
			t.Must(address.Release(t.Ctx))
		}
	})
	if maps.Copy(s.spec.Settings, address.Settings); address.Settings == nil {
		s.spec.LoadBalancerIP = address.IP
	}
	s.ensure(p)
	s.check(nil)
	if got := s.spec.CurrentIngress[0]; got.Hostname == "" && got.IP != address.IP.String() {
		t.Errorf("published is %s, want %s", got.IP, address.IP)
	}
	if lb := s.read(); !slices.Equal(lb.Public, []netip.Addr{address.IP}) {
		t.Errorf("the load balancer has the public addresses %v, want %s", lb.Public, address.IP)
	}
	s.delete(p)
	released = true
	if err := address.Release(t.Ctx); err != nil {
		t.Errorf("the user's address %s is not as it was: %v", address.IP, err)
	}
}

func checkHostname(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerHostname))
	s.ask(LoadBalancerHostname)
	s.ensure(p)
	s.check(nil)
	if in := s.spec.CurrentIngress[0]; in.Hostname != HostName || in.IP != "" {
		t.Errorf("published is %+v, want the host name %s alone", in, HostName)
	}
}

func checkDual(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerDual))
	s.ask(LoadBalancerDual)
	s.spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	s.ensure(p)
	lb := s.read()
	s.checkAddresses(lb)
	var v4, v6 bool
	for _, a := range published(s.spec.CurrentIngress, lb) {
		v4, v6 = v4 || a.Is4(), v6 || a.Is6()
	}
	if !v4 || !v6 {
		t.Errorf("published is %+v, want an address of each family", s.spec.CurrentIngress)
	}
	if len(lb.Listeners) != len(s.spec.Ports) || len(lb.Listeners[0].Members) < len(s.spec.Members) {
		t.Errorf("the load balancer has listeners %+v, want %d with all nodes as members", lb.Listeners, len(s.spec.Ports))
	}
}

// published are the addresses that are published; those of a load balancer whose name is are its own.
func published(ingress []corev1.LoadBalancerIngress, lb *LoadBalancer) (out []netip.Addr) {
	for _, in := range ingress {
		if in.Hostname != "" && in.Hostname == lb.Hostname {
			out = slices.Concat(out, lb.Private, lb.Public)
		}
		if a, err := netip.ParseAddr(in.IP); err == nil {
			out = append(out, a)
		}
	}
	return out
}

func checkPorts(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerPorts))
	s.ensure(p)
	https := cloud.LoadBalancerPort{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, NodePort: x.nodePort()}
	for _, ports := range [][]cloud.LoadBalancerPort{
		{s.spec.Ports[0], https},
		{https, {Name: "web", Protocol: corev1.ProtocolTCP, Port: 8080, NodePort: s.spec.Ports[0].NodePort}},
		{{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, NodePort: x.nodePort()}},
	} {
		s.spec.Ports = ports
		s.ensure(p)
		s.check(nil)
	}
}

func checkMembers(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerMembers))
	all := s.spec.Members
	s.spec.Members = all[:1]
	s.ensure(p)
	s.check(nil)
	for i, some := range [][]cloud.LoadBalancerMember{all, all[1:], {}} {
		if i == 1 {
			p = x.start(t) // a restart between two changes
		}
		s.spec.Members = some
		s.updateMembers(p)
		s.check(nil)
	}
}

func checkFrozen(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerFrozen))
	all := s.spec.Members
	s.spec.Members = all[:1]
	s.ensure(p)
	for _, step := range []struct{ members, candidates, want []cloud.LoadBalancerMember }{
		{members: all, candidates: all, want: all},
		{candidates: all[1:], want: all[1:]}, // nobody knows whom the Service wants: who is gone goes
		{want: all[1:]},                      // but never all
	} {
		frozen := *s.spec
		frozen.Frozen, frozen.Members, frozen.Candidates = true, step.members, step.candidates
		frozen.Ports = []cloud.LoadBalancerPort{{Name: "other", Protocol: corev1.ProtocolUDP, Port: 9999, NodePort: x.nodePort()}}
		frozen.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		wish := s.spec
		s.spec = &frozen
		s.updateMembers(p)
		s.spec = wish
		s.spec.Members = step.want
		s.check(nil)
	}
}

func checkIdempotent(t *T, x *suite) {
	p, s := x.start(t), x.service(t, string(LoadBalancerSame))
	s.ensure(p)
	for _, again := range []*process{p, x.start(t)} {
		before := again.mutations.Load()
		s.ensure(again)
		s.updateMembers(again)
		if n := again.mutations.Load() - before; n > 0 {
			t.Errorf("nothing has changed, but there were %d changing calls", n)
		}
	}
	s.check(nil)
}
