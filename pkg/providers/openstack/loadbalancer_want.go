package openstack

import (
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
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
	b := &treeBuilder{w: w, ovn: provider == providerOVN, warnings: append([]string(nil), w.warnings...)}
	b.refuse()
	if len(b.errs) > 0 {
		return nil, nil, &cloud.Error{Kind: cloud.KindUnsupported, Op: "load balancer " + w.names.lb, Err: errors.Join(b.errs...)}
	}
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
	w        *lbWishes
	ovn      bool
	second   []cloud.LoadBalancerMember // those with an address of the second family that is served
	warnings []string
	errs     []error
}

func (b *treeBuilder) unsupported(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

func (b *treeBuilder) warnf(format string, args ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, args...))
}

// refuse checks what provider ovn lacks. Other providers answer for themselves.
func (b *treeBuilder) refuse() {
	w := b.w
	if w.spec.HealthCheck != nil && w.spec.Settings.Has(annMonitor) && !w.spec.Settings.Bool(annMonitor, true) {
		b.warnf("annotation %s: externalTrafficPolicy Local needs health monitors, so the pools have them", annMonitor)
	}
	if !b.ovn {
		return
	}
	s := w.spec.Settings
	switch {
	case len(w.sourceRanges) == 0:
	case w.cfg.ManageSecurityGroups:
		b.warnf("spec.loadBalancerSourceRanges: load balancer provider ovn cannot restrict clients; the security group of the nodes does, unless another group of theirs opens the node ports")
	default:
		b.unsupported("spec.loadBalancerSourceRanges: load balancer provider ovn cannot restrict clients, so that everyone would be let in; remove the ranges, use provider amphora or set [LoadBalancer] manage-security-groups")
	}
	if w.tlsRef != "" {
		b.unsupported("annotation %s: load balancer provider ovn cannot end TLS", annTLSContainerRef)
	}
	if w.forwardedFor {
		b.unsupported("annotation %s: load balancer provider ovn does not understand HTTP", annForwardedFor)
	}
	if w.proxy != "" {
		b.unsupported("annotation %s: load balancer provider ovn does not speak the PROXY protocol", annProxyProtocol)
	}
	if m := s.String(annMethod, methodSourceIPPort); m != methodSourceIPPort {
		b.unsupported("annotation %s: load balancer provider ovn knows %s only, not %s", annMethod, methodSourceIPPort, m)
	}
	if w.spec.HealthCheck != nil {
		b.warnf("load balancer provider ovn has no HTTP health monitors: with externalTrafficPolicy Local it finds the nodes that have endpoints by connecting to the node port")
	}
	if w.spec.SessionAffinityTimeout > 0 {
		b.warnf("spec.sessionAffinity ClientIP: load balancer provider ovn, up to OpenStack Zed at least, accepts it and does nothing: connections of one client go to several nodes")
	}
	for _, name := range []string{annTimeoutClient, annTimeoutConnect, annTimeoutMember, annTimeoutInspect, annConnectionLimit, annFlavorID, annAvailabilityZone} {
		if s.Has(name) {
			b.warnf("annotation %s has no effect: load balancer provider ovn does not know it", name)
		}
	}
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
	if b.ovn {
		l.Connections = -1
		return l
	}
	l.Timeouts = &lbTimeouts{
		Client:  s.Int(annTimeoutClient, defaultTimeoutClient),
		Connect: s.Int(annTimeoutConnect, defaultTimeoutConnect),
		Member:  s.Int(annTimeoutMember, defaultTimeoutMember),
		Inspect: s.Int(annTimeoutInspect, defaultTimeoutInspect),
	}
	l.AllowedCIDRs = w.sourceRanges
	return l
}

func (b *treeBuilder) pool(i int, port cloud.LoadBalancerPort, listenerProtocol string, members []cloud.LoadBalancerMember) *lbPool {
	w := b.w
	p := &lbPool{
		Name:       w.names.pool(i),
		Protocol:   string(port.Protocol),
		Method:     w.method(),
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
	if b.ovn {
		p.Method = methodSourceIPPort
	}
	monitor, ok := w.monitor()
	if ok {
		monitor.Name = w.names.monitor(i)
		monitor.Type = b.monitorType(port)
		if monitor.Type == monitorHTTP {
			monitor.Path, monitor.Method, monitor.Codes = w.spec.HealthCheck.Path, http.MethodGet, "200"
		}
		p.Monitor = &monitor
	}
	add := func(m cloud.LoadBalancerMember, ipv6 bool) {
		addr, _ := memberAddress(m, ipv6)
		member := lbMember{Name: m.Node.NodeName, Address: addr.String(), Port: int(port.NodePort), SubnetID: w.memberSubnetFor(ipv6)}
		if ok && monitor.Type == monitorHTTP {
			member.MonitorPort = int(w.spec.HealthCheck.Port)
		}
		p.Members = append(p.Members, member)
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
