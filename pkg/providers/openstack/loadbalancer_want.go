package openstack

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// Defaults of the listener annotations, in ms.
const (
	defaultTimeoutClient  = 50000
	defaultTimeoutConnect = 5000
	defaultTimeoutMember  = 50000
	defaultTimeoutInspect = 0
)

// want is the tree that the Service wants of a load balancer of provider. What the provider
// cannot do is an error of KindUnsupported where traffic would be let in or handled
// otherwise than the Service says, and a warning where it would only miss a tuning.
func (w *lbWishes) want(provider string) (tree *lbTree, warnings []string, err error) {
	problems, advice := w.lacks(provider)
	if err := cloud.Refuse(cloud.KindUnsupported, "load balancer "+w.names.lb, problems); err != nil {
		return nil, nil, err
	}
	b := &treeBuilder{w: w, ovn: provider == config.ProviderOVN, warnings: slices.Concat(w.warnings, advice)}
	b.method, b.keepMethod = w.method(provider)
	members := b.members(w.isIPv6())
	if w.second {
		b.second = b.members(!w.isIPv6())
	}
	tree = &lbTree{}
	for i, port := range w.spec.Ports {
		l := b.listener(i, port)
		l.Pool = b.pool(i, port, l.Protocol, members)
		tree.Listeners = append(tree.Listeners, l)
		tree.Pools = append(tree.Pools, l.Pool)
	}
	return tree, b.warnings, nil
}

type treeBuilder struct {
	w                  *lbWishes
	ovn                bool
	method, keepMethod string
	second             []cloud.LoadBalancerMember // those with an address of the second family that is served
	warnings           []string
}

func (b *treeBuilder) warnf(format string, args ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, args...))
}

func (b *treeBuilder) listener(i int, port cloud.LoadBalancerPort) *lbListener {
	w, s := b.w, b.w.spec.Settings
	l := &lbListener{
		Name:        w.names.listener(i),
		Protocol:    string(port.Protocol),
		Port:        int(port.Port),
		Connections: s.Int(annConnectionLimit, -1),
		Tags:        []string{w.names.lb, w.names.owner},
	}
	if l.Protocol == protoTCP {
		switch {
		case w.tlsRef != "":
			l.Protocol, l.TLSRef = protoTLS, w.tlsRef
		case w.forwardedFor:
			l.Protocol = protoHTTP
		}
		l.ForwardedFor = w.forwardedFor
	}
	if b.ovn { // it keeps the limit of connections, without effect
		return l
	}
	l.Timeouts = &lbTimeouts{
		Client:  s.Int(annTimeoutClient, defaultTimeoutClient),
		Connect: s.Int(annTimeoutConnect, defaultTimeoutConnect),
		Member:  s.Int(annTimeoutMember, defaultTimeoutMember),
		Inspect: s.Int(annTimeoutInspect, defaultTimeoutInspect),
	}
	l.AllowedCIDRs, l.Everyone = w.sourceRanges, w.everyone()
	return l
}

// everyone is how a listener says that everyone is let in: with the range of all addresses, as
// openstack-cloud-controller-manager writes it, which would change a listener without ranges if
// it took over. Two families have none: Octavia (Zed) fails to open a VIP of two to a range of one.
func (w *lbWishes) everyone() []string {
	switch {
	case w.second, w.sourceRanges != nil:
		return nil
	case len(w.spec.SourceRanges) > 0:
		var all []string
		for _, p := range w.spec.SourceRanges {
			if p.Addr().Is6() == w.isIPv6() {
				all = append(all, p.String())
			}
		}
		return slices.Sorted(slices.Values(all))
	case w.isIPv6():
		return []string{"::/0"}
	}
	return []string{"0.0.0.0/0"}
}

func (b *treeBuilder) pool(i int, port cloud.LoadBalancerPort, listenerProtocol string, members []cloud.LoadBalancerMember) *lbPool {
	w := b.w
	p := &lbPool{
		Name:       w.names.pool(i),
		Protocol:   string(port.Protocol),
		Method:     b.method,
		KeepMethod: b.keepMethod,
		ByClientIP: w.spec.SessionAffinityTimeout > 0,
		Status:     stateActive,
		Used:       true,
	}
	switch {
	case p.Protocol == protoTCP && w.proxy != "":
		p.Protocol = w.proxy
	case listenerProtocol == protoHTTP, listenerProtocol == protoTLS:
		p.Protocol = protoHTTP
	}
	monitor, ok := w.monitor()
	if ok {
		monitor.Name = w.names.monitor(i)
		monitor.Type = b.monitorType(port)
		if monitor.Type == monitorHTTP {
			monitor.Path, monitor.Method, monitor.Codes = w.spec.HealthCheck.Path, http.MethodGet, "200"
		}
		p.Monitor = &monitor
		p.Implied = !w.asksForMonitor()
	}
	add := func(m cloud.LoadBalancerMember, ipv6 bool) {
		addr, _ := memberAddress(m, ipv6)
		member := lbMember{Name: w.memberName(m.Node.NodeName, addr, port.NodePort), Address: addr.String(), Port: int(port.NodePort), SubnetID: w.memberSubnetFor(ipv6)}
		if ok && monitor.Type == monitorHTTP {
			member.MonitorPort = int(w.spec.HealthCheck.Port)
		}
		p.Members = append(p.Members, member)
	}
	if port.NodePort == 0 { // there is nothing to send to
		return p
	}
	for _, m := range members {
		add(m, w.isIPv6())
	}
	if w.second && (b.ovn || port.Protocol != corev1.ProtocolTCP) { // passed on within the family
		for _, m := range b.second {
			add(m, !w.isIPv6())
		}
	}
	sortMembers(p.Members)
	return p
}

// memberName is the Node's; where children are made one by one it is the one that
// openstack-cloud-controller-manager gives them then.
func (w *lbWishes) memberName(node string, addr netip.Addr, port int32) string {
	if w.cfg.SerialAPICalls {
		return cut(fmt.Sprintf("member_%s_%s_%d", node, addr, port))
	}
	return node
}

func (b *treeBuilder) monitorType(port cloud.LoadBalancerPort) string {
	switch {
	case b.w.spec.HealthCheck != nil && !b.ovn:
		return monitorHTTP
	case port.Protocol == protoUDP:
		return monitorUDP
	case port.Protocol == protoSCTP:
		return monitorSCTP
	default:
		return monitorTCP
	}
}
