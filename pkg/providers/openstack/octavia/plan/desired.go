package plan

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// Desired is what a Service wants of one load balancer: resolved once, when it is known which one that
// is, and never changed.
type Desired struct {
	*Service
	// Names are those of the Service's things on the load balancer.
	Names Names
	// Second says that the second IP family is served, too.
	Second bool
	// Tree is nil for a frozen Service.
	Tree *Tree
	// Warnings are of what is not, or only partly, fulfilled.
	Warnings []string
}

// Nothing is what a Service wants that leaves the load balancer.
func Nothing(names Names) *Desired {
	return &Desired{Service: &Service{Spec: &cloud.LoadBalancerSpec{LoadBalancerRef: names.ref}}, Names: names, Tree: &Tree{}}
}

// On is what the Service wants of a load balancer that there is. why tells why that was made with one
// VIP, where that is known.
func (svc *Service) On(lb *LoadBalancer, names Names, why string) (*Desired, error) {
	if svc.Spec.Frozen {
		return &Desired{Service: svc, Names: names, Second: svc.TwoFamilies() && lb.SecondAddress() != ""}, nil
	}
	second, reason, err := svc.families(lb)
	if err != nil {
		return nil, err
	}
	if why != "" && !second {
		reason = why // it is the cause of the other
	}
	return svc.New(lb.Provider, names, second, reason)
}

// New is what the Service wants of a load balancer of provider that serves the second family, too, or
// for a reason does not. What the provider cannot do is an error of KindUnsupported where traffic would be
// let in or handled otherwise than the Service says, and a warning where it would only miss a tuning.
func (svc *Service) New(provider string, names Names, second bool, reason string) (*Desired, error) {
	advice, err := svc.Lacks(provider)
	if err != nil {
		return nil, err
	}
	d := &Desired{Service: svc, Names: names, Second: second, Tree: &Tree{}, Warnings: slices.Concat(svc.warnings, svc.onlyFirst(reason), advice)}
	b := &treeBuilder{Desired: d, ovn: provider == config.ProviderOVN}
	b.method, b.keepMethod = svc.method(provider)
	first, warnings := family.Members(svc.Spec.Members, svc.IsIPv6())
	d.Warnings = append(d.Warnings, warnings...)
	if second {
		b.second, warnings = family.Members(svc.Spec.Members, !svc.IsIPv6())
		d.Warnings = append(d.Warnings, warnings...)
	}
	for i, port := range svc.Spec.Ports {
		l := b.listener(i, port)
		l.Pool = b.pool(i, port, l.Protocol, first)
		d.Tree.Listeners = append(d.Tree.Listeners, l)
		d.Tree.Pools = append(d.Tree.Pools, l.Pool)
	}
	return d, nil
}

// Lacks refuses what a load balancer of provider cannot do, and warns of what it ignores.
func (svc *Service) Lacks(provider string) (warnings []string, err error) {
	problems, warnings := svc.lacks(provider)
	return warnings, cloud.Refuse(cloud.KindUnsupported, "load balancer "+NamesOf(svc.Spec.LoadBalancerRef).LB, problems)
}

// HasFIP reports whether the load balancer is reached through a floating IP.
func (d *Desired) HasFIP() bool { return d.hasFIP(d.Second) }

// Families are those that are served, the first first: true for IPv6.
func (d *Desired) Families() []bool {
	if d.Second {
		return []bool{d.IsIPv6(), !d.IsIPv6()}
	}
	return []bool{d.IsIPv6()}
}

// ClientRanges are the clients that are let in, everyone of each family when the Service
// does not say.
func (d *Desired) ClientRanges() []netip.Prefix {
	if len(d.Spec.SourceRanges) > 0 {
		return d.Spec.SourceRanges
	}
	var all []netip.Prefix
	for _, ipv6 := range d.Families() {
		all = append(all, family.Everyone(ipv6))
	}
	return all
}

type treeBuilder struct {
	*Desired
	ovn                bool
	method, keepMethod string
	second             []family.Member // of the second family, if that is served
}

func (b *treeBuilder) listener(i int, port cloud.LoadBalancerPort) *Listener {
	l := &Listener{
		Name:     b.Names.listener(i),
		Protocol: string(port.Protocol),
		Port:     int(port.Port),
		Tags:     []string{b.Names.LB, b.Names.OwnerTag},
	}
	if l.Protocol == ProtoTCP {
		switch {
		case b.TLSRef != "":
			l.Protocol, l.TLSRef = ProtoTLS, b.TLSRef
		case b.forwardedFor:
			l.Protocol = ProtoHTTP
		}
		l.ForwardedFor = b.forwardedFor
	}
	l.tune(b.Spec.Settings, b.ovn)
	if !b.ovn {
		l.AllowedCIDRs, l.Everyone = b.sourceRanges, b.everyone()
	}
	return l
}

// everyone is how a listener says that everyone is let in: with the range of all addresses, as
// openstack-cloud-controller-manager writes it, which would change a listener without ranges if
// it took over. Two families have none: Octavia (Zed) fails to open a VIP of two to a range of one.
func (d *Desired) everyone() []string {
	switch {
	case d.Second, d.sourceRanges != nil:
		return nil
	case len(d.Spec.SourceRanges) > 0:
		return slices.Sorted(slices.Values(d.ownRanges()))
	}
	return []string{family.Everyone(d.IsIPv6()).String()}
}

func (b *treeBuilder) pool(i int, port cloud.LoadBalancerPort, listenerProtocol string, members []family.Member) *Pool {
	p := &Pool{
		Name:       b.Names.pool(i),
		Protocol:   string(port.Protocol),
		Method:     b.method,
		KeepMethod: b.keepMethod,
		ByClientIP: b.Spec.SessionAffinityTimeout > 0,
		Status:     StateActive,
		Used:       true,
	}
	switch {
	case p.Protocol == ProtoTCP && b.proxy != "":
		p.Protocol = b.proxy
	case listenerProtocol == ProtoHTTP, listenerProtocol == ProtoTLS:
		p.Protocol = ProtoHTTP
	}
	check := 0
	if monitor, ok := b.Monitor(); ok {
		monitor.Name = b.Names.monitor(i)
		monitor.Type = cmp.Or(map[corev1.Protocol]string{ProtoUDP: MonitorUDP, ProtoSCTP: MonitorSCTP}[port.Protocol], MonitorTCP)
		if b.Spec.HealthCheck != nil && !b.ovn {
			monitor.Type = MonitorHTTP
			monitor.Path, monitor.Method, monitor.Codes = b.Spec.HealthCheck.Path, http.MethodGet, "200"
			check = int(b.Spec.HealthCheck.Port)
		}
		p.Monitor = &monitor
		p.Implied = !b.asksForMonitor()
	}
	if port.NodePort == 0 { // there is nothing to send to
		return p
	}
	if b.Second && (b.ovn || port.Protocol != corev1.ProtocolTCP) { // passed on within the family
		members = slices.Concat(members, b.second)
	}
	p.Members = b.members(members, int(port.NodePort), check)
	return p
}

// members are those of a pool, with the port that each is reached at and the one that it is checked at. Its
// name is the Node's; where children are made one by one it is the one that
// openstack-cloud-controller-manager gives them then.
func (svc *Service) members(nodes []family.Member, port, check int) []Member {
	var out []Member
	for _, m := range nodes {
		name := m.Node
		if svc.Config.SerialAPICalls {
			name = Cut(fmt.Sprintf("member_%s_%s_%d", m.Node, m.Address, port))
		}
		out = append(out, Member{Name: name, Address: m.Address.String(), Port: port, MonitorPort: check, SubnetID: svc.memberSubnetFor(m.Address.Is6())})
	}
	SortMembers(out)
	return out
}
