package openstack

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// lbWishes is what a Service wants of OpenStack: its spec with annotations, class and
// cloud.conf put together. Making it calls no cloud.
type lbWishes struct {
	spec  *cloud.LoadBalancerSpec
	cfg   *config.LoadBalancer
	names lbNames

	loadBalancerID    string // of the annotation
	internal          bool
	keepFIP           bool
	vip               vipWishes
	fip               fipWishes
	memberSubnet      string       // "" when it is to be found out
	likelySubnet      string       // where members are that it holds, when memberSubnet is empty
	likelySubnetLater string       // what that is for members that come later, with Nodes
	memberCIDR        netip.Prefix // its, zero when it is not known
	proxy             string       // "", protoProxy or protoProxyV2
	tlsRef            string
	forwardedFor      bool
	sourceRanges      []string // as normalCIDRs writes them
	second            bool     // the second family is served, see serveFamilies
	single            bool     // it is not, for a reason that was noted
	refused           error    // the answer once all else is done, see refuseLater
	warnings          []string
	problems          field.ErrorList
}

// vipWishes matter at creation only.
type vipWishes struct {
	portID, subnetID, networkID string
	address                     netip.Addr
	flavorID, zone              string
}

// fipWishes say where a floating IP comes from.
type fipWishes struct {
	address   netip.Addr
	networkID string
	floatingSubnet
}

func (w *lbWishes) warnf(format string, args ...any) {
	w.warnings = append(w.warnings, fmt.Sprintf(format, args...))
}

func (w *lbWishes) refuse(problem *field.Error) { w.problems = append(w.problems, problem) }

// wishesOf puts spec and configuration together; errors are of KindInvalid and name
// everything that contradicts itself.
func wishesOf(spec *cloud.LoadBalancerSpec, cfg *config.Config) (*lbWishes, error) {
	w := readWishes(spec, cfg)
	op := "plan load balancer " + w.names.lb
	if spec.Cluster.UID == "" {
		return nil, &cloud.Error{Kind: cloud.KindInvalid, Op: op, Err: errors.New("the cluster's UID is not known, so that load balancers could not be told from those of other clusters")}
	}
	if err := cloud.Refuse(cloud.KindInvalid, op, w.problems); err != nil {
		return nil, err
	}
	return w, nil
}

// readWishes is wishesOf that notes what contradicts itself.
func readWishes(spec *cloud.LoadBalancerSpec, cfg *config.Config) *lbWishes {
	s, lb := spec.Settings, &cfg.LoadBalancer
	w := &lbWishes{
		spec: spec, cfg: lb, names: namesFor(spec.LoadBalancerRef),
		loadBalancerID: s.String(annLoadBalancerID, ""),
		keepFIP:        s.Bool(annKeepFloatingIP, false),
		forwardedFor:   s.Bool(annForwardedFor, false),
		tlsRef:         s.String(annTLSContainerRef, lb.DefaultTLSContainerRef),
		vip: vipWishes{
			portID:   s.String(annPortID, ""),
			flavorID: s.String(annFlavorID, lb.FlavorID),
			zone:     s.String(annAvailabilityZone, lb.AvailabilityZone),
		},
	}
	w.family(s)
	w.places(cfg.LoadBalancerClass)
	w.clients()
	w.protocols(s)
	return w
}

// family decides on floating IP and VIP. IPv6 has no floating IPs.
func (w *lbWishes) family(s cloud.Settings) {
	w.internal = w.cfg.Internal || s.Bool(annInternal, false)
	if w.cfg.Internal && !s.Bool(annInternal, true) {
		w.warnf("annotation %s: false has no effect: cloud.conf [LoadBalancer] internal-lb makes all load balancers internal", annInternal)
	}
	wanted := w.spec.LoadBalancerIP
	switch {
	case wanted.IsValid() && wanted.Is6() != w.isIPv6() && w.served():
		w.warnf("spec.loadBalancerIP: %s has no effect: it is not of the Service's first family %s", wanted, w.spec.IPFamilies[0])
		wanted = netip.Addr{}
	case wanted.IsValid() && wanted.Is6() != w.isIPv6():
		w.refuse(field.Invalid(field.NewPath("spec", "loadBalancerIP"), wanted.String(), fmt.Sprintf("use an address of the Service's first family %s", w.spec.IPFamilies[0])))
	}
	if !w.internal && !w.isIPv6() {
		w.fip.address = wanted
	} else {
		w.vip.address = wanted
	}
}

// clients keeps the source ranges of the VIP's family: Octavia refuses others. An empty list
// lets everyone in, so there must be one left, see otherFamily.
func (w *lbWishes) clients() {
	var cidrs []string
	for _, p := range w.spec.SourceRanges {
		if p.Addr().Is6() == w.isIPv6() {
			cidrs = append(cidrs, p.String())
		}
	}
	w.sourceRanges = normalCIDRs(cidrs)
}

// clientRanges are the clients that are let in, everyone of each family when the Service
// does not say.
func (w *lbWishes) clientRanges() []netip.Prefix {
	if len(w.spec.SourceRanges) > 0 {
		return w.spec.SourceRanges
	}
	var all []netip.Prefix
	for _, ipv6 := range w.families() {
		everyone := netip.IPv4Unspecified()
		if ipv6 {
			everyone = netip.IPv6Unspecified()
		}
		all = append(all, netip.PrefixFrom(everyone, 0))
	}
	return all
}

func (w *lbWishes) isIPv6() bool { return w.spec.IPFamilies[0] == corev1.IPv6Protocol }

// hasFIP reports whether the load balancer is reached through a floating IP.
func (w *lbWishes) hasFIP() bool { return !w.internal && (!w.isIPv6() || w.second) }

func (w *lbWishes) protocols(s cloud.Settings) {
	switch s.String(annProxyProtocol, "false") {
	case "true", "v1":
		w.proxy = protoProxy
	case "v2":
		w.proxy = protoProxyV2
	}
	if w.proxy != "" && w.forwardedFor {
		w.refuse(field.Invalid(cloud.AnnotationPath(annProxyProtocol), s.String(annProxyProtocol, ""),
			fmt.Sprintf("contradicts the annotation %s: set one of them", annForwardedFor)))
	}
	w.tcpOnly()
	w.monitorTimes()
	seen := map[listenerKey]int{}
	for i, p := range w.spec.Ports {
		k := (&lbListener{Protocol: string(p.Protocol), Port: int(p.Port)}).key()
		if j, ok := seen[k]; ok {
			w.refuse(field.Invalid(field.NewPath("spec", "ports").Index(i), fmt.Sprintf("%d/%s", p.Port, p.Protocol), fmt.Sprintf("spec.ports[%d] is the same port", j)))
		}
		seen[k] = i
	}
}

// fixedAtCreation warns of wishes that only a new load balancer could fulfill.
func (w *lbWishes) fixedAtCreation(lb *octaviaLB) []string {
	var out []string
	check := func(what, wanted, is string) {
		if wanted != "" && !strings.EqualFold(wanted, is) {
			out = append(out, fmt.Sprintf("%s %s has no effect on load balancer %s, which has %s: it is fixed at creation", what, wanted, lb.ID, is))
		}
	}
	s := w.spec.Settings
	if w.vip.address.IsValid() {
		check("spec.loadBalancerIP", w.vip.address.String(), lb.VIPAddress)
	}
	check("annotation "+annSubnetID, s.String(annSubnetID, ""), lb.VIPSubnetID)
	check("annotation "+annNetworkID, s.String(annNetworkID, ""), lb.VIPNetworkID)
	check("annotation "+annPortID, s.String(annPortID, ""), lb.VIPPortID)
	check("annotation "+annFlavorID, s.String(annFlavorID, ""), lb.FlavorID)
	check("annotation "+annAvailabilityZone, s.String(annAvailabilityZone, ""), lb.Zone)
	return out
}

// monitor is the health monitor that the pools get, without name and type; ok is false for none.
func (w *lbWishes) monitor() (m lbMonitor, ok bool) {
	s := w.spec.Settings
	ok = w.spec.HealthCheck != nil || w.asksForMonitor()
	return lbMonitor{
		Delay:          s.Int(annMonitorDelay, w.cfg.MonitorDelay.Seconds()),
		Timeout:        s.Int(annMonitorTimeout, w.cfg.MonitorTimeout.Seconds()),
		MaxRetries:     s.Int(annMonitorRetries, w.cfg.MonitorMaxRetries),
		MaxRetriesDown: s.Int(annMonitorRetriesDown, w.cfg.MonitorMaxRetriesDown),
	}, ok
}

// asksForMonitor reports whether annotation or configuration want health monitors.
func (w *lbWishes) asksForMonitor() bool {
	return w.spec.Settings.Bool(annMonitor, w.cfg.CreateMonitor)
}

// anyMethod says that a pool keeps whichever algorithm it has.
const anyMethod = "*"

// method is the algorithm of pools on a load balancer of provider, and keep another one that those
// there are may have. Amphorae go by ROUND_ROBIN where a pool that came with its load balancer has
// SOURCE_IP_PORT, but Octavia refuses that in requests for a single pool: so do we, lest a Service
// that was served gets no further port. One that Octavia does not know, or that ovn has not, changes
// no pool that is there.
func (w *lbWishes) method(provider string) (method, keep string) {
	configured := w.cfg.Method
	if configured == "" || w.cfg.Provider == config.ProviderOVN { // then it is of that one, which cannot choose
		configured = config.MethodRoundRobin
	}
	method = cmp.Or(w.spec.Settings.String(annMethod, ""), configured)
	switch {
	case provider == config.ProviderOVN:
		return config.MethodSourceIPPort, anyMethod
	case !config.IsMethod(method):
		return config.MethodRoundRobin, anyMethod
	case config.IsAmphora(provider) && method == config.MethodSourceIPPort:
		return config.MethodRoundRobin, config.MethodSourceIPPort
	}
	return method, ""
}
