package octavia

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/wire"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/providerid"
)

// maxPopulated bounds what is sent in one call, by members and source ranges.
const maxPopulated = 20_000

// create makes the load balancer where there is none, with all its children in the same call unless they
// are very many or the provider takes them one by one only. After a crash at any point locate comes upon
// the load balancer by its name.
//
// Octavia (Zed at least) makes the VIP's port before it looks at the children, and forgets it
// when it refuses one: each further attempt would take another address of the subnet. So
// after a refusal the load balancer is made alone, and its children are refused by themselves.
func (r *reconciliation) create(ctx context.Context) error {
	if r.lb != nil {
		return nil
	}
	svc := r.service
	if err := r.mayCreate(ctx); err != nil {
		return err
	}
	opts, err := r.createOpts(ctx)
	if err != nil {
		return err
	}
	second, err := r.planSecond(ctx, &opts)
	if err != nil {
		return err
	}
	names := r.names
	if r.desired, err = svc.New(svc.Config.Provider, names, second, r.oneVIP); err != nil {
		return err
	}
	if err := r.mayHaveLost(names.LB); err != nil {
		return err
	}
	populated := !svc.Config.SerialAPICalls && r.desired.Tree.Size() <= maxPopulated
	if populated {
		if err := r.populate(ctx, &opts); err != nil {
			return err
		}
	}
	answer, lost, err := r.octavia.Create(ctx, opts)
	if populated && isRefusal(err) {
		klog.FromContext(ctx).V(2).Info("Octavia refused a load balancer with its children, making it without them", "name", names.LB, "reason", err.Error())
		populated, opts.Listeners = false, nil
		answer, lost, err = r.octavia.Create(ctx, opts)
	}
	if lost {
		until := r.now().Add(lostCreation)
		r.creations.Put(names.LB, until, r.now(), until)
	}
	if err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Created load balancer", "loadBalancer", answer.ID, "name", names.LB, "populated", populated)
	r.created, r.lb = true, &answer.LoadBalancer
	r.work = work{id: answer.ID, holding: holding{names: names, role: plan.Owner}}
	r.known = known{phase: accepted, readAt: r.now(), tree: &plan.Tree{}}
	if populated {
		r.known.tree = answer.Tree(r.desired.Tree)
	}
	err = r.exposeEarly(ctx)
	r.remember() // an operation that comes after a long creation goes on from here
	if err != nil {
		return err
	}
	if err := r.waitMade(ctx); err != nil {
		return &cloud.Error{Kind: cloud.KindOf(err), Op: "create load balancer " + names.LB, RetryAfter: cloud.RetryAfter(err), Progress: true, Err: err}
	}
	if len(svc.Published()) > 0 && svc.Spec.Verify {
		r.repaired = append(r.repaired, "the load balancer was gone and was made anew")
	}
	return nil
}

// populate has the load balancer made with its children.
func (r *reconciliation) populate(ctx context.Context, opts *loadbalancers.CreateOpts) error {
	for _, l := range r.desired.Tree.Listeners {
		if err := r.setMemberSubnets(ctx, opts.VipSubnetID, l.Pool.Members); err != nil {
			return err
		}
	}
	// Provider ovn forgets monitors that are made this way, and can never delete them again.
	opts.Listeners = wire.Populated(r.desired.Tree, r.service.Config.Provider != config.ProviderOVN)
	return nil
}

// waitMade waits briefly until a new load balancer is there, and fills in what became of its
// children.
func (r *reconciliation) waitMade(ctx context.Context) error {
	lb, err := r.waitActive(ctx, r.lb.ID, r.waits.brief)
	if err != nil {
		return err
	}
	status, err := r.octavia.Status(ctx, lb.ID)
	if err != nil {
		return err
	}
	r.lb, r.known.phase = lb, made
	if !status.Proves(r.known.tree) { // a provider that answers otherwise than Octavia
		r.known.tree, err = r.octavia.Tree(ctx, lb.ID)
		r.readTree = true
	}
	return err
}

// mayCreate refuses what could not be made, or not be served, before anything is.
func (r *reconciliation) mayCreate(ctx context.Context) error {
	svc := r.service
	served := len(svc.Published()) > 0
	if svc.LoadBalancerID != "" && !served { // the user has set the annotation, and has set it wrong
		return cloud.Errorf(cloud.KindInvalid, "annotation %s: there is no load balancer %s in this project and region; correct or remove the annotation",
			plan.AnnLoadBalancerID, svc.LoadBalancerID)
	}
	if _, err := svc.Lacks(svc.Config.Provider); err != nil {
		return err
	}
	if svc.LoadBalancerID != "" {
		if err := r.checkScope(ctx); err != nil {
			return err
		}
	}
	if err := r.checkFloatingSubnet(ctx); err != nil {
		return err
	}
	if !svc.HasTCP() {
		return nil
	}
	return r.checkCertificate(ctx, svc.TLSRef)
}

// lostCreation is how long a creation whose answer was lost may still be under way: Octavia
// shows the load balancer only at the end of the request, which under load took it 30 s.
const lostCreation = time.Minute

// mayHaveLost returns KindRetryAfter while a creation of the name may still be under way.
func (r *reconciliation) mayHaveLost(name string) error {
	until, ok := r.creations.Get(name, r.now())
	if !ok || !r.now().Before(until) {
		return nil
	}
	return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: min(until.Sub(r.now()), 5*time.Second),
		Err: fmt.Errorf("the answer to the creation of load balancer %s was lost: it is looked for until %s before another one is made", name, until.Format(time.TimeOnly))}
}

// isRefusal reports whether Octavia has certainly made nothing, because of what the request
// says or because a quota is met.
func isRefusal(err error) bool {
	kinds := []cloud.Kind{cloud.KindInvalid, cloud.KindUnsupported, cloud.KindConflict, cloud.KindDenied, cloud.KindStale, cloud.KindQuota}
	return slices.Contains(kinds, cloud.KindOf(err))
}

func (r *reconciliation) createOpts(ctx context.Context) (loadbalancers.CreateOpts, error) {
	svc, names := r.service, r.names
	vip := svc.VIP
	opts := loadbalancers.CreateOpts{Name: names.LB, Description: names.Description, Tags: names.Mark(nil, plan.Owner), Provider: svc.Config.Provider}
	if svc.Config.Provider != config.ProviderOVN {
		opts.FlavorID, opts.AvailabilityZone = vip.FlavorID, vip.Zone
	}
	if vip.Address.IsValid() {
		opts.VipAddress = vip.Address.String()
	}
	switch {
	case vip.PortID != "":
		opts.VipPortID = vip.PortID
	case vip.SubnetID != "" || vip.NetworkID != "":
		opts.VipSubnetID, opts.VipNetworkID = vip.SubnetID, vip.NetworkID
	default:
		subnet, err := r.subnetOfMembers(ctx)
		if err != nil {
			return opts, err
		}
		opts.VipSubnetID = subnet
	}
	return opts, r.vipFamily(ctx, &opts)
}

// witnesses is how many Nodes' servers are asked for at most, so that some may have gone.
const witnesses = 5

// checkScope refuses to make the load balancer of a Service anew that was served before where none
// of its Nodes' servers is known either: Octavia says "not found" in the same words of a load balancer
// that is gone and of one that is in the project which other credentials were for. All Services would
// get other load balancers there and lose their addresses. Where no Node tells, or Nova is not to be
// asked, the load balancer is made.
func (r *reconciliation) checkScope(ctx context.Context) error {
	asked := 0
	for _, m := range slices.Concat(r.service.Spec.Members, r.service.Spec.Candidates) {
		id, region, err := providerid.Parse(m.Node.ProviderID)
		if err != nil || region != "" && region != r.c.Region() || asked == witnesses {
			continue
		}
		if err := r.server(ctx, id); !cloud.IsNotFound(err) {
			if isRefusal(err) { // which time does not mend
				return nil
			}
			return err
		}
		asked++
	}
	if asked == 0 {
		return nil
	}
	return cloud.Errorf(cloud.KindConflict, "load balancer %s is not found in %s, and neither are the servers of %d nodes: it is not made anew, as cloud.conf may be that of another project or region. If the load balancer is gone all the same, remove the annotations %s and %s",
		r.names.LB, r.octavia.Scope(), asked, plan.AnnLoadBalancerID, plan.AnnAddress)
}

// checkCertificate asks Barbican for the certificate of a listener that is about to get it. Octavia
// refuses one that is missing as well, but says so late, on a load balancer that is there already, and
// without the next step. Another store is not asked.
func (r *reconciliation) checkCertificate(ctx context.Context, ref string) error {
	if ref == "" || r.service.Config.ContainerStore != config.StoreBarbican {
		return nil
	}
	if problem := r.service.CertificateProblem(); problem != nil {
		return cloud.Refuse(cloud.KindInvalid, "", field.ErrorList{problem})
	}
	source := "annotation " + plan.AnnTLSContainerRef
	if !r.service.Spec.Settings.Has(plan.AnnTLSContainerRef) {
		source = "cloud.conf [LoadBalancer] default-tls-container-ref"
	}
	kind, id := plan.BarbicanRef(ref)
	what := strings.TrimSuffix(kind, "s") + " " + id
	sc, err := r.c.Service(ctx, api.KeyManager)
	if err != nil {
		return fmt.Errorf("%s: check the certificate: %w; if the cloud has no Barbican, set [LoadBalancer] container-store = external", source, err)
	}
	var doc struct{}
	err = api.With(sc, "get "+what).Read(ctx, &doc, kind, id)
	switch {
	case cloud.IsNotFound(err):
		return cloud.Errorf(cloud.KindInvalid, "%s: Barbican has no %s: store the certificate or correct the reference", source, what)
	case cloud.KindOf(err) == cloud.KindDenied:
		return &cloud.Error{Kind: cloud.KindDenied, Err: fmt.Errorf("%s: %w: let the cloud controller manager's user (and Octavia's) read it", source, err)}
	}
	return err
}

// withMemberCIDR is a Service with the CIDR, and so the family, of the subnet that the configuration names.
func (r *reconciliation) withMemberCIDR(ctx context.Context, svc *plan.Service) (*plan.Service, error) {
	if svc.MemberSubnet == "" {
		return svc, nil
	}
	cidr, err := r.subnets.CIDR(ctx, svc.MemberSubnet)
	if cloud.IsNotFound(err) { // another project's, perhaps: Octavia will tell
		return svc, nil
	}
	return svc.WithMemberCIDR(cidr), err
}

// setMemberSubnets fills in the subnets of the members that have none. A wrong subnet cuts a
// member off, so where the configuration does not name it, it is found out: the likely one or the
// VIP's if it holds the address, otherwise that of the Neutron port which has the address. Members for which
// there is none are left without: Octavia then uses the VIP's network.
func (r *reconciliation) setMemberSubnets(ctx context.Context, vipSubnetID string, members []plan.Member) (err error) {
	for i := range members {
		m := &members[i]
		if m.SubnetID != "" {
			continue
		}
		if m.SubnetID, err = r.findSubnet(ctx, m.Endpoint().Addr(), r.service.LikelySubnet, vipSubnetID); err != nil {
			return err
		}
	}
	return nil
}

// findSubnet finds the subnet that holds addr, asking Neutron only for what no earlier answer tells.
func (r *reconciliation) findSubnet(ctx context.Context, addr netip.Addr, likely ...string) (string, error) {
	for _, id := range likely {
		if id == "" {
			continue
		}
		cidr, err := r.subnets.CIDR(ctx, id)
		if err != nil && !cloud.IsNotFound(err) { // not found: it may be another project's
			return "", err
		}
		if cidr.Contains(addr) {
			return id, nil
		}
	}
	for id, cidr := range r.subnetOf {
		if cidr.Contains(addr) {
			return id, nil
		}
	}
	id, err := r.subnetOfPort(ctx, addr)
	if err != nil || id == "" {
		return "", err
	}
	cidr, err := r.subnets.CIDR(ctx, id)
	if err == nil {
		r.subnetOf[id] = cidr
	}
	return id, err
}

// subnetOfPort finds the subnet by the port of the member's server: a project may well have
// several networks with the same CIDR, each with a server of that address.
func (r *reconciliation) subnetOfPort(ctx context.Context, addr netip.Addr) (string, error) {
	found, err := r.subnets.OfAddress(ctx, addr, r.service.ServerAt(addr))
	if err != nil {
		return "", err
	}
	if len(found) > 1 {
		return "", cloud.Errorf(cloud.KindInvalid, "servers in subnets %s have the address %s: set [LoadBalancer] member-subnet-id and subnet-id in cloud.conf or the annotations %s and %s",
			strings.Join(found, ", "), addr, plan.AnnMemberSubnetID, plan.AnnSubnetID)
	}
	return strings.Join(found, ""), nil
}

// subnetOfMembers is where the VIP goes when nothing says otherwise: the first member's subnet or,
// where there is no member, the first Node's.
func (r *reconciliation) subnetOfMembers(ctx context.Context) (string, error) {
	const nextStep = "set [LoadBalancer] subnet-id in cloud.conf or the annotation " + plan.AnnSubnetID
	for _, m := range r.service.Near() {
		addr, ok := family.Address(m, r.service.IsIPv6())
		if !ok {
			continue
		}
		id, err := r.subnetOfPort(ctx, addr)
		if err == nil && id == "" {
			err = cloud.Errorf(cloud.KindInvalid, "no subnet for the VIP: no server's port has the address %s of node %s; %s", addr, m.Node.NodeName, nextStep)
		}
		return id, err
	}
	return "", cloud.Errorf(cloud.KindInvalid, "no subnet for the VIP: there is no node to take it from; %s", nextStep)
}

// vipFamily makes the VIP one of the Service's first family: where a subnet of the other is
// named, as cloud.conf does for all Services, it takes one of the same network. Octavia
// would take an IPv4 subnet of a network.
func (r *reconciliation) vipFamily(ctx context.Context, opts *loadbalancers.CreateOpts) error {
	network, ipv6 := opts.VipNetworkID, r.service.IsIPv6()
	switch {
	case opts.VipPortID != "" || opts.VipAddress != "" && opts.VipSubnetID == "":
		return nil
	case opts.VipSubnetID != "":
		cidr, err := r.subnets.CIDR(ctx, opts.VipSubnetID)
		if cloud.IsNotFound(err) || err == nil && cidr.Addr().Is6() == ipv6 {
			return nil // another project's, perhaps: Octavia will tell
		}
		if err == nil && network == "" {
			network, err = r.subnets.NetworkOf(ctx, opts.VipSubnetID)
		}
		if err != nil {
			return err
		}
	case !ipv6:
		return nil
	}
	subnet, none, err := r.subnetOn(ctx, network, ipv6)
	if none != "" {
		return cloud.Errorf(cloud.KindInvalid, "no subnet for the VIP of the Service's first family: %s; set [LoadBalancer] subnet-id in cloud.conf or the annotation %s", none, plan.AnnSubnetID)
	}
	opts.VipSubnetID = subnet
	return err
}

// additionalVIPsMinor is the version 2.x of Octavia's API that has additional VIPs.
const additionalVIPsMinor = 26

// planSecond finds the subnet of a new load balancer's additional VIP, and notes why there
// can be none.
func (r *reconciliation) planSecond(ctx context.Context, opts *loadbalancers.CreateOpts) (second bool, err error) {
	if !r.service.TwoFamilies() {
		return false, nil
	}
	if r.oneVIP = r.service.OneVIP(); r.oneVIP != "" {
		return false, nil
	}
	minor, err := r.octavia.Minor(ctx)
	if err != nil {
		return false, err
	}
	if minor < additionalVIPsMinor {
		r.oneVIP = fmt.Sprintf("this Octavia speaks version 2.%d of its API, and additional VIPs need 2.%d", minor, additionalVIPsMinor)
		return false, nil
	}
	network := opts.VipNetworkID
	if network == "" {
		if network, err = r.subnets.NetworkOf(ctx, opts.VipSubnetID); err != nil {
			return false, err
		}
	}
	subnet, none, err := r.subnetOn(ctx, network, !r.service.IsIPv6())
	if r.oneVIP = none; err != nil || none != "" {
		return false, err
	}
	opts.AdditionalVips = []loadbalancers.AdditionalVip{{SubnetID: subnet}}
	return r.service.Config.Provider != config.ProviderOVN, nil // which makes no use of it in some versions
}

// subnetOn is the subnet of a network for VIPs of a family: the only one, or the one that
// the Nodes are in. none says why there is none to take.
func (r *reconciliation) subnetOn(ctx context.Context, network string, ipv6 bool) (id, none string, err error) {
	version, family := "4", corev1.IPv4Protocol
	if ipv6 {
		version, family = "6", corev1.IPv6Protocol
	}
	all, err := r.subnets.In(ctx, network, url.Values{"ip_version": {version}})
	if err != nil {
		return "", "", err
	}
	if len(all) == 1 {
		return all[0].ID, "", nil
	}
	var ids []string
	for _, s := range all {
		ids = append(ids, s.ID)
		for _, m := range r.service.Near() {
			if slices.ContainsFunc(m.Addresses, func(a netip.Addr) bool { return a.Is6() == ipv6 && s.CIDR.Contains(a) }) {
				return s.ID, "", nil
			}
		}
	}
	if len(all) == 0 {
		return "", fmt.Sprintf("network %s of the VIP has no %s subnet", network, family), nil
	}
	return "", fmt.Sprintf("network %s of the VIP has several %s subnets, %s, and no node is in one of them", network, family, strings.Join(ids, ", ")), nil
}
