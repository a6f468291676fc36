package plan

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/providerid"
)

// Service is what a Service says: its spec with annotations, class and cloud.conf put together. It
// is never changed.
type Service struct {
	Spec   *cloud.LoadBalancerSpec
	Config *config.LoadBalancer
	// LoadBalancerID is that of the annotation.
	LoadBalancerID string
	Internal       bool
	KeepFloatingIP bool
	VIP            VIP
	FloatingIP     FloatingIP
	// MemberSubnet is "" when it is to be found out; LikelySubnet is then where members are that it holds.
	MemberSubnet, LikelySubnet string
	TLSRef                     string

	likelySubnetLater string       // what LikelySubnet is for members that come later, with Nodes
	memberCIDR        netip.Prefix // of MemberSubnet, zero when it is not known
	proxy             string       // "", ProtoProxy or ProtoProxyV2
	forwardedFor      bool
	sourceRanges      []string // as NormalCIDRs writes them
	warnings          notes
	problems          field.ErrorList
}

// VIP is what is wanted of a new load balancer's VIP.
type VIP struct {
	PortID, SubnetID, NetworkID string
	Address                     netip.Addr
	FlavorID, Zone              string
}

// FloatingIP says where a floating IP comes from.
type FloatingIP struct {
	Address   netip.Addr
	NetworkID string
	floatingSubnet
}

type floatingSubnet struct{ SubnetID, SubnetName, SubnetTags string }

func (svc *Service) refuse(problem *field.Error) { svc.problems = append(svc.problems, problem) }

// Resolve puts spec and configuration together; errors are of KindInvalid and name everything that
// contradicts itself, which is left alone in a frozen spec.
func Resolve(spec *cloud.LoadBalancerSpec, cfg *config.Config) (*Service, error) {
	svc := resolve(spec, cfg)
	op := "plan load balancer " + NamesOf(spec.LoadBalancerRef).LB
	if spec.Cluster.UID == "" {
		return nil, &cloud.Error{Kind: cloud.KindInvalid, Op: op, Err: errors.New("the cluster's UID is not known, so that load balancers could not be told from those of other clusters")}
	}
	if spec.Frozen {
		return svc, nil
	}
	if err := cloud.Refuse(cloud.KindInvalid, op, svc.problems); err != nil {
		return nil, err
	}
	return svc, nil
}

func resolve(spec *cloud.LoadBalancerSpec, cfg *config.Config) *Service {
	s, lb := spec.Settings, &cfg.LoadBalancer
	svc := &Service{
		Spec: spec, Config: lb,
		LoadBalancerID: s.String(AnnLoadBalancerID, ""),
		KeepFloatingIP: s.Bool(AnnKeepFloatingIP, false),
		forwardedFor:   s.Bool(AnnForwardedFor, false),
		TLSRef:         s.String(AnnTLSContainerRef, lb.DefaultTLSContainerRef),
		VIP: VIP{
			PortID:   s.String(AnnPortID, ""),
			FlavorID: s.String(AnnFlavorID, lb.FlavorID),
			Zone:     s.String(AnnAvailabilityZone, lb.AvailabilityZone),
		},
	}
	svc.family(s)
	svc.places(cfg.LoadBalancerClass)
	svc.sourceRanges = NormalCIDRs(svc.ownRanges())
	svc.protocols(s)
	return svc
}

// WithMemberCIDR is the Service with that of its MemberSubnet.
func (svc *Service) WithMemberCIDR(cidr netip.Prefix) *Service {
	out := *svc
	out.memberCIDR = cidr
	return &out
}

// WithLaterMembers is the Service when members come after Ensure.
func (svc *Service) WithLaterMembers() *Service {
	out := *svc
	out.LikelySubnet = svc.likelySubnetLater
	return &out
}

// family decides on floating IP and VIP. IPv6 has no floating IPs.
func (svc *Service) family(s cloud.Settings) {
	svc.Internal = svc.Config.Internal || s.Bool(AnnInternal, false)
	svc.warnings.add(svc.Config.Internal && !s.Bool(AnnInternal, true),
		"annotation %s: false has no effect: cloud.conf [LoadBalancer] internal-lb makes all load balancers internal", AnnInternal)
	wanted := svc.Spec.LoadBalancerIP
	switch {
	case wanted.IsValid() && wanted.Is6() != svc.IsIPv6() && svc.served():
		svc.warnings.add(true, "spec.loadBalancerIP: %s has no effect: it is not of the Service's first family %s", wanted, svc.Spec.IPFamilies[0])
		wanted = netip.Addr{}
	case wanted.IsValid() && wanted.Is6() != svc.IsIPv6():
		svc.refuse(field.Invalid(field.NewPath("spec", "loadBalancerIP"), wanted.String(), fmt.Sprintf("use an address of the Service's first family %s", svc.Spec.IPFamilies[0])))
	}
	if !svc.Internal && !svc.IsIPv6() {
		svc.FloatingIP.Address = wanted
	} else {
		svc.VIP.Address = wanted
	}
}

// ownRanges are the source ranges of the VIP's family: Octavia refuses others. An empty list
// lets everyone in, so there must be one left, see otherFamily.
func (svc *Service) ownRanges() []string {
	var out []string
	for _, p := range family.Ranges(svc.Spec.SourceRanges, svc.IsIPv6()) {
		out = append(out, p.String())
	}
	return out
}

// IsIPv6 reports whether the first family is IPv6.
func (svc *Service) IsIPv6() bool { return svc.Spec.IPFamilies[0] == corev1.IPv6Protocol }

// TwoFamilies reports whether the Service is of two families.
func (svc *Service) TwoFamilies() bool { return len(svc.Spec.IPFamilies) > 1 }

// Published are the addresses that the Service has published; empty before it is served.
func (svc *Service) Published() []string { return published(svc.Spec.LoadBalancerRef) }

// hasFIP reports whether a load balancer is reached through a floating IP, which IPv6 has not.
func (svc *Service) hasFIP(second bool) bool { return !svc.Internal && (!svc.IsIPv6() || second) }

func (svc *Service) protocols(s cloud.Settings) {
	svc.proxy = map[string]string{"true": ProtoProxy, "v1": ProtoProxy, "v2": ProtoProxyV2}[s.String(AnnProxyProtocol, "")]
	if svc.proxy != "" && svc.forwardedFor {
		svc.refuse(field.Invalid(cloud.AnnotationPath(AnnProxyProtocol), s.String(AnnProxyProtocol, ""),
			fmt.Sprintf("contradicts the annotation %s: set one of them", AnnForwardedFor)))
	}
	svc.tcpOnly()
	svc.monitorTimes()
	seen := map[ListenerKey]int{}
	for i, p := range svc.Spec.Ports {
		k := (&Listener{Protocol: string(p.Protocol), Port: int(p.Port)}).Key()
		if j, ok := seen[k]; ok {
			svc.refuse(field.Invalid(field.NewPath("spec", "ports").Index(i), fmt.Sprintf("%d/%s", p.Port, p.Protocol), fmt.Sprintf("spec.ports[%d] is the same port", j)))
		}
		seen[k] = i
	}
}

// FixedAtCreation warns of what the Service says that only a new load balancer could fulfill.
func (svc *Service) FixedAtCreation(lb *LoadBalancer) []string {
	var out notes
	check := func(what, wanted, is string) {
		out.add(wanted != "" && !strings.EqualFold(wanted, is),
			"%s %s has no effect on load balancer %s, which has %s: it is fixed at creation", what, wanted, lb.ID, is)
	}
	if svc.VIP.Address.IsValid() {
		check("spec.loadBalancerIP", svc.VIP.Address.String(), lb.VIPAddress)
	}
	for _, x := range [][2]string{{AnnSubnetID, lb.VIPSubnetID}, {AnnNetworkID, lb.VIPNetworkID}, {AnnPortID, lb.VIPPortID},
		{AnnFlavorID, lb.FlavorID}, {AnnAvailabilityZone, lb.Zone}} {
		check("annotation "+x[0], svc.Spec.Settings.String(x[0], ""), x[1])
	}
	return out
}

// Monitor is the health monitor that the pools get, without name and type; ok is false for none.
func (svc *Service) Monitor() (m Monitor, ok bool) {
	s := svc.Spec.Settings
	ok = svc.Spec.HealthCheck != nil || svc.asksForMonitor()
	return Monitor{
		Delay:          s.Int(AnnMonitorDelay, svc.Config.MonitorDelay.Seconds()),
		Timeout:        s.Int(AnnMonitorTimeout, svc.Config.MonitorTimeout.Seconds()),
		MaxRetries:     s.Int(AnnMonitorRetries, svc.Config.MonitorMaxRetries),
		MaxRetriesDown: s.Int(AnnMonitorRetriesDown, svc.Config.MonitorMaxRetriesDown),
	}, ok
}

// asksForMonitor reports whether annotation or configuration want health monitors.
func (svc *Service) asksForMonitor() bool {
	return svc.Spec.Settings.Bool(AnnMonitor, svc.Config.CreateMonitor)
}

// anyMethod says that a pool keeps whichever algorithm it has.
const anyMethod = "*"

// method is the algorithm of pools on a load balancer of provider, and keep another one that those
// there are may have. Amphorae go by ROUND_ROBIN where a pool that came with its load balancer has
// SOURCE_IP_PORT, but Octavia refuses that in requests for a single pool: so do we, lest a Service
// that was served gets no further port. One that Octavia does not know, or that ovn has not, changes
// no pool that is there.
func (svc *Service) method(provider string) (method, keep string) {
	configured := svc.Config.Method
	if configured == "" || svc.Config.Provider == config.ProviderOVN { // then it is of that one, which cannot choose
		configured = config.MethodRoundRobin
	}
	method = cmp.Or(svc.Spec.Settings.String(AnnMethod, ""), configured)
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

// Near are the Nodes that tell in which networks the cluster is: the members or, where none is
// selected, those that could have been.
func (svc *Service) Near() []cloud.LoadBalancerMember {
	if len(svc.Spec.Members) > 0 {
		return svc.Spec.Members
	}
	return svc.Spec.Candidates
}

// ServerAt is the ID of the server of the Node with the address, "" when it is not known.
func (svc *Service) ServerAt(addr netip.Addr) string {
	for _, m := range svc.Near() {
		if a, ok := family.Address(m, addr.Is6()); ok && a == addr {
			if id, _, err := providerid.Parse(m.Node.ProviderID); err == nil {
				return id
			}
		}
	}
	return ""
}

// memberSubnetFor is the subnet that the configuration names for members of the family, ""
// when it is to be found out.
func (svc *Service) memberSubnetFor(ipv6 bool) string {
	if svc.MemberSubnet == "" || svc.memberCIDR.IsValid() && svc.memberCIDR.Addr().Is6() != ipv6 {
		return ""
	}
	return svc.MemberSubnet
}
