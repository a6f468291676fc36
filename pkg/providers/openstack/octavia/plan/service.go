package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/marks"
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
		k := keyOf(p)
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
	if svc.memberCIDR.IsValid() && svc.memberCIDR.Addr().Is6() != ipv6 {
		return ""
	}
	return svc.MemberSubnet
}

// Here is which of class, annotation and cloud.conf counts, field by field. The order is that of
// the existing manager, whose load balancers are taken over, also where it is odd:
//
//   - VIP: the class, the annotation, cloud.conf; of an internal load balancer the annotation goes
//     before the class. A section [LoadBalancerClass] without a name goes before all of them for
//     Services without a class and for internal ones.
//   - Members: the annotation, the class and cloud.conf's member-subnet-id; else cloud.conf's
//     subnet-id, the annotation for the VIP, the class's subnet for it, or for members that come
//     later the class's only. A subnet for VIPs is a member's only if it holds its address: there
//     the existing manager cuts members off.
//   - Floating IP: the class, the annotation, cloud.conf; a floating subnet's three keys count as a
//     whole, and the ID goes before name and tags.

// class is the name of the class, which spec.loadBalancerClass or the annotation picks.
func (svc *Service) class() string {
	name := svc.Spec.Settings.String(AnnClass, "")
	if svc.Spec.Class != "" && name != "" && name != svc.Spec.Class {
		svc.refuse(field.Invalid(cloud.AnnotationPath(AnnClass), name, fmt.Sprintf("spec.loadBalancerClass picks the class %q: remove the annotation", svc.Spec.Class)))
	}
	return cmp.Or(svc.Spec.Class, name)
}

// classOf is the section of the class of that name, an empty one where there is none, which is a
// problem if it has a name.
func (svc *Service) classOf(name string, classes map[string]*config.LoadBalancerClass) *config.LoadBalancerClass {
	if c := classes[name]; c != nil {
		return c
	}
	if name != "" {
		path := cloud.AnnotationPath(AnnClass)
		if svc.Spec.Class != "" {
			path = field.NewPath("spec", "loadBalancerClass")
		}
		svc.refuse(field.Invalid(path, name, fmt.Sprintf("cloud.conf has no [LoadBalancerClass %q]; it has %s", name,
			cmp.Or(strings.Join(ClassNames(classes), ", "), "none"))))
	}
	return &config.LoadBalancerClass{}
}

// ClassNames are the names of classes that Services can pick.
func ClassNames(classes map[string]*config.LoadBalancerClass) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(classes)), func(name string) bool { return name == "" })
}

// places decides on networks and subnets. internal must be known.
func (svc *Service) places(classes map[string]*config.LoadBalancerClass) {
	s, lb, name := svc.Spec.Settings, svc.Config, svc.class()
	class, first := &config.LoadBalancerClass{}, svc.classOf("", classes)
	if name != "" {
		class = svc.classOf(name, classes)
		if !svc.Internal {
			first = class
		}
	}
	vipSubnet := s.String(AnnSubnetID, "")
	svc.VIP.SubnetID = cmp.Or(first.SubnetID, vipSubnet, class.SubnetID, lb.SubnetID)
	svc.VIP.NetworkID = cmp.Or(first.NetworkID, s.String(AnnNetworkID, ""), class.NetworkID, lb.NetworkID)

	svc.MemberSubnet = cmp.Or(s.String(AnnMemberSubnetID, ""), class.MemberSubnetID, lb.MemberSubnetID)
	svc.LikelySubnet = cmp.Or(lb.SubnetID, vipSubnet, class.SubnetID)
	svc.likelySubnetLater = cmp.Or(lb.SubnetID, vipSubnet)
	if name != "" {
		svc.likelySubnetLater = cmp.Or(lb.SubnetID, class.SubnetID)
	}

	svc.FloatingIP.NetworkID = cmp.Or(class.FloatingNetworkID, s.String(AnnFloatingNetworkID, lb.FloatingNetworkID))
	svc.FloatingIP.floatingSubnet = cmp.Or(
		floatingSubnet{class.FloatingSubnetID, class.FloatingSubnet, class.FloatingSubnetTags},
		floatingSubnet{s.String(AnnFloatingSubnetID, ""), s.String(AnnFloatingSubnet, ""), s.String(AnnFloatingSubnetTags, "")},
		floatingSubnet{lb.FloatingSubnetID, lb.FloatingSubnet, lb.FloatingSubnetTags})
	if id := svc.FloatingIP.SubnetID; id != "" {
		svc.FloatingIP.floatingSubnet = floatingSubnet{SubnetID: id}
	}
}

// A Service that names, by the annotation load-balancer-id, a load balancer that was not made
// for it shares it as it is: its addresses are the business of the Service that it was made
// for, or of the user. A sharer adds and removes none: by a floating IP of its own it would
// publish the ports of everybody on an internal load balancer to the internet.
//
// So it must have the exposure that the load balancer has. That is decided before anything is
// made for it. When it changes later the sharer's listeners and members are kept up to date
// all the same, and its error or warning says what is wrong.

// Exposure is how a Service is reached.
type Exposure struct {
	// FloatingIP is the address by which it is, "" for none.
	FloatingIP string
	Warning    string
	// Refused is the answer when all else that the Service wants is done.
	Refused error
}

// SharedExposure is how a sharer is reached on a load balancer with these floating IPs. An error keeps a
// Service off that has not joined yet.
func (d *Desired) SharedExposure(lb *LoadBalancer, attached []string) (Exposure, error) {
	joined := slices.Contains(lb.Tags, d.Names.LB)
	published := d.Published()
	reached := func(a string) bool { return slices.Contains(published, a) }
	var refusal error
	switch {
	case d.Internal && len(attached) > 0:
		refusal = cloud.Errorf(cloud.KindConflict, "load balancer %s is reached from outside by the floating IP %s, and the Service is to be internal: use an internal load balancer, or remove the annotation %s to get one of its own",
			lb.ID, attached[0], AnnLoadBalancerID)
		if joined && !slices.ContainsFunc(attached, reached) { // otherwise it keeps the address by which clients reach it
			return Exposure{Warning: refusal.Error()}, nil
		}
	case !d.HasFIP() || !isIPv4(lb.VIPAddress) && !isIPv4(lb.SecondAddress()):
		return Exposure{}, nil
	case len(attached) == 0:
		refusal = cloud.Errorf(cloud.KindConflict, "load balancer %s has no floating IP, and only the Service that it was made for may give it one, as it concerns all who share it: let that Service be external, attach a floating IP to port %s, or let this Service be internal (annotation %s)",
			lb.ID, lb.VIPPortID, AnnInternal)
	}
	switch {
	case refusal != nil && joined:
		return Exposure{Refused: refusal}, nil
	case refusal != nil:
		return Exposure{}, refusal
	}
	wanted := d.FloatingIP.Address
	out := Exposure{FloatingIP: attached[0]}
	for _, a := range attached {
		if wanted.IsValid() && a == wanted.String() {
			return Exposure{FloatingIP: a}, nil
		}
		if reached(a) {
			out.FloatingIP = a
		}
	}
	if wanted.IsValid() {
		out.Warning = fmt.Sprintf("spec.loadBalancerIP %s has no effect: load balancer %s was not made for this Service and has the floating IP %s", wanted, lb.ID, out.FloatingIP)
	}
	return out, nil
}

// MayExpose refuses the owner of an internal load balancer a floating IP while others share
// it: whoever came to it when it was internal may rely on that. One that it had before, and
// lost, it gets again, if the Service's status shows it: what annotations say is its user's word.
func (d *Desired) MayExpose(lb *LoadBalancer) error {
	sharers := d.Names.OtherServices(lb.Tags)
	if len(sharers) == 0 || slices.ContainsFunc(d.Spec.CurrentIngress, func(in corev1.LoadBalancerIngress) bool {
		return isIPv4(in.IP) && in.IP != lb.VIPAddress && in.IP != lb.SecondAddress()
	}) {
		return nil
	}
	return cloud.Errorf(cloud.KindConflict, "load balancer %s gets no floating IP while it is shared: it would publish %s as well; give those a load balancer of their own first, or let this Service be internal (annotation %s)",
		lb.ID, strings.Join(sharers, ", "), AnnInternal)
}

// Claim is the load balancer's tags with those that the Service marks it with: as used by it and, of its
// owner, as the cluster's. An error keeps one more off that is shared by too many.
func (d *Desired) Claim(lb *LoadBalancer, role Role) ([]string, error) {
	tags := d.Names.Mark(lb.Tags, role)
	if others := d.Names.OtherServices(lb.Tags); role == Tenant && len(tags) > len(lb.Tags) && len(others) >= d.Config.MaxSharedLB {
		return nil, cloud.Errorf(cloud.KindConflict, "load balancer %s is shared by %d Services already, and [LoadBalancer] max-shared-lb is %d: use another one or raise the limit",
			lb.ID, len(others), d.Config.MaxSharedLB)
	}
	return tags, nil
}

// Mark adds the tags that say whose a load balancer is.
func (n Names) Mark(tags []string, role Role) []string {
	if role == Owner {
		return marks.Add(tags, n.LB, n.OwnerTag)
	}
	return marks.Add(tags, n.LB)
}

// Knows reports whether the Service may change the members of a load balancer: one that has its tag. A
// frozen one has it beyond doubt as its owner or, as a tenant, by its tag and our cluster's mark or the
// ID in its annotation.
func (svc *Service) Knows(lb *LoadBalancer, names Names, role Role) bool {
	tagged := slices.Contains(lb.Tags, names.LB)
	if !svc.Spec.Frozen {
		return tagged
	}
	return role == Owner || tagged && (slices.Contains(lb.Tags, names.OwnerTag) || svc.LoadBalancerID == lb.ID)
}

// IsNewborn reports whether the creation of a load balancer of ours may have been cut off before it
// served anybody: its ID is published when nothing is left to be done.
func (d *Desired) IsNewborn(lb *LoadBalancer) bool {
	return lb.Name == d.Names.LB && slices.Contains(lb.Tags, d.Names.OwnerTag) && d.LoadBalancerID == ""
}
