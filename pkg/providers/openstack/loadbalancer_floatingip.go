package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
)

// attachedFIPs are the floating IPs of a load balancer's VIP.
func (o *lbOperation) attachedFIPs(ctx context.Context, lb *octaviaLB) ([]neutron.FloatingIP, error) {
	if lb.VIPPortID == "" {
		return nil, nil // Neutron takes an empty filter for none
	}
	all, err := o.lb.fips.do(ctx, lb.VIPPortID, o.lb.floating.OfPorts)
	if err != nil {
		return nil, err
	}
	return slices.Clone(all[lb.VIPPortID]), nil
}

// exposeEarly gives the VIP of a load balancer that Octavia has only begun to make its floating IP,
// which needs the VIP's port only, and returns its address. Where it gets none, which is a warning,
// that is told when the load balancer is there.
func (o *lbOperation) exposeEarly(ctx context.Context, w *lbWishes, lb *octaviaLB) (string, error) {
	if !w.hasFIP() || lb.VIPPortID == "" {
		return "", nil
	}
	warnings := len(o.warnings)
	defer func() { o.warnings = o.warnings[:warnings] }()
	return o.ensureFIP(ctx, w, lb, true)
}

// ensureFIP gives the VIP its floating IP and returns the address. fresh says that the VIP's
// port was made by this operation, so that it has none yet.
func (o *lbOperation) ensureFIP(ctx context.Context, w *lbWishes, lb *octaviaLB, fresh bool) (string, error) {
	if lb.VIPPortID == "" {
		return "", fmt.Errorf("load balancer %s has no VIP port that a floating IP could lead to", lb.ID)
	}
	var attached []neutron.FloatingIP
	if !fresh {
		var err error
		if attached, err = o.attachedFIPs(ctx, lb); err != nil {
			return "", err
		}
	}
	if len(attached) > 0 {
		return o.attachedAddress(w, lb, attached), nil
	}
	if err := w.mayExpose(lb); err != nil {
		w.refuseLater(err)
		return "", nil
	}
	if w.fip.address.IsValid() {
		return o.attachWanted(ctx, w, lb)
	}
	// The VIP may be new although the Service was served before: it keeps its address.
	if old, err := o.publishedFIP(ctx, w); err != nil {
		return "", err
	} else if old != nil {
		return old.Address, o.lb.floating.Attach(ctx, old, lb.VIPPortID)
	}
	made, err := o.createFIP(ctx, w, lb.VIPPortID)
	if err != nil || made == nil {
		return "", err
	}
	return made.Address, nil
}

// attachedAddress is the address by which the VIP is reached already. It stays: clients use it, and
// other controllers ignore spec.loadBalancerIP as long as there is one.
func (o *lbOperation) attachedAddress(w *lbWishes, lb *octaviaLB, attached []neutron.FloatingIP) string {
	wanted := w.fip.address
	if !wanted.IsValid() || slices.ContainsFunc(attached, func(f neutron.FloatingIP) bool { return f.Address == wanted.String() }) {
		return cmp.Or(addressIf(wanted), attached[0].Address)
	}
	o.warnings = append(o.warnings, fmt.Sprintf("spec.loadBalancerIP %s has no effect: load balancer %s is reached by the floating IP %s; disassociate that one first, and this one is associated", wanted, lb.ID, attached[0].Address))
	return attached[0].Address
}

// addressIf writes an address, "" for none.
func addressIf(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// attachWanted attaches the floating IP of spec.loadBalancerIP to a VIP that has none.
func (o *lbOperation) attachWanted(ctx context.Context, w *lbWishes, lb *octaviaLB) (string, error) {
	address := w.fip.address.String()
	found, err := o.lb.floating.Own(ctx, "floating_ip_address", address)
	if err != nil {
		return "", err
	}
	for _, f := range found {
		if f.PortID != "" && f.PortID != lb.VIPPortID {
			return "", cloud.Errorf(cloud.KindConflict, "spec.loadBalancerIP: floating IP %s is in use by port %s", address, f.PortID)
		}
	}
	if len(found) > 0 {
		return address, o.lb.floating.Attach(ctx, &found[0], lb.VIPPortID)
	}
	made, err := o.createFIP(ctx, w, lb.VIPPortID)
	if err != nil || made == nil {
		return "", err
	}
	return made.Address, nil
}

// publishedFIP finds an unused floating IP of ours whose address the Service has published: by its
// status, as the description may be that of a Service in another cluster of the same name.
func (o *lbOperation) publishedFIP(ctx context.Context, w *lbWishes) (*neutron.FloatingIP, error) {
	published := evidenceOf(w.spec.LoadBalancerRef).status
	if len(published) == 0 {
		return nil, nil
	}
	fips, err := o.lb.floating.Own(ctx, "description", w.names.fipDescription)
	if err != nil {
		return nil, err
	}
	for _, f := range fips {
		if f.PortID == "" && f.Description == w.names.fipDescription && slices.Contains(published, f.Address) {
			return &f, nil
		}
	}
	return nil, nil
}

func publishedAddresses(w *lbWishes) []string { return publishedBy(w.spec.LoadBalancerRef) }

// releaseFIP takes a floating IP off the VIP: one that we made is deleted unless it is to be
// kept, every other one is only detached.
func (o *lbOperation) releaseFIP(ctx context.Context, names lbNames, keep bool, f *neutron.FloatingIP) error {
	if names.isFIP(f.Description) && !keep {
		return o.lb.floating.Delete(ctx, f)
	}
	return o.lb.floating.Detach(ctx, f)
}

// removeFIPs takes our floating IPs off a load balancer that needs none. One that somebody
// else put there stays, and so does one that other Services of the load balancer publish:
// left is its address.
func (o *lbOperation) removeFIPs(ctx context.Context, names lbNames, keep bool, lb *octaviaLB) (left string, err error) {
	attached, err := o.attachedFIPs(ctx, lb)
	if err != nil {
		return "", err
	}
	for _, f := range attached {
		switch {
		case len(names.otherServices(lb.Tags)) > 0:
			left = f.Address
		case !names.isFIP(f.Description):
		default:
			if err := o.releaseFIP(ctx, names, keep, &f); err != nil {
				return "", err
			}
		}
	}
	return left, nil
}

// createFIP makes a floating IP. With portID it is attached from its first moment on, so
// that a crash cannot leave one that nothing points to. Nil, and a warning, where there is no
// external network to take it from.
func (o *lbOperation) createFIP(ctx context.Context, w *lbWishes, portID string) (*neutron.FloatingIP, error) {
	network := w.fip.networkID
	if network == "" {
		var err error
		if network, err = o.lb.subnets.External(ctx); err != nil {
			return nil, err
		}
	}
	if network == "" {
		o.warnings = append(o.warnings, "there is no external network for a floating IP, so that the address of the VIP is published; set [LoadBalancer] floating-network-id in cloud.conf or the annotation "+annFloatingNetworkID)
		return nil, nil
	}
	subnets, err := o.fipSubnets(ctx, w, network)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, subnet := range subnets {
		opts := floatingips.CreateOpts{FloatingNetworkID: network, SubnetID: subnet, PortID: portID, Description: w.names.fipDescription}
		if w.fip.address.IsValid() {
			opts.FloatingIP = w.fip.address.String()
		}
		made, err := o.lb.floating.Create(ctx, opts)
		if err == nil {
			return made, nil
		}
		if w.fip.address.IsValid() && cloud.KindOf(err) == cloud.KindDenied {
			err = &cloud.Error{Kind: cloud.KindDenied, Err: fmt.Errorf("%w: spec.loadBalancerIP %s is no floating IP of this project, and only administrators choose the address of a new one; create it beforehand", err, w.fip.address)}
		}
		errs = append(errs, err)
		// Another subnet helps only when this one is full or does not hold the address.
		if k := cloud.KindOf(err); k != cloud.KindQuota && k != cloud.KindConflict && k != cloud.KindStale && k != cloud.KindInvalid {
			break
		}
	}
	if w.fip.networkID == "" {
		o.lb.subnets.ForgetExternal()
	}
	if len(errs) == 1 {
		return nil, errs[0]
	}
	return nil, errors.Join(errs...)
}

// fipSubnets are the subnets to try for a floating IP, "" for whichever Neutron takes.
func (o *lbOperation) fipSubnets(ctx context.Context, w *lbWishes, network string) ([]string, error) {
	pattern := w.fip.subnetName != "" || w.fip.subnetTags != ""
	if w.fip.subnetID != "" || !pattern || w.fip.address.IsValid() { // an address names its subnet
		return []string{w.fip.subnetID}, nil
	}
	if problem := w.patternProblem(); problem != nil {
		return nil, cloud.Refuse(cloud.KindInvalid, "find the subnet for floating IPs", field.ErrorList{problem})
	}
	match, err := config.SubnetMatcher(w.fip.subnetName)
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	if name, tags := tagFilter(w.fip.subnetTags); tags != "" {
		query.Set(name, tags)
	}
	subnets, err := o.lb.subnets.In(ctx, network, query)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, s := range subnets {
		if match(s.Name) {
			ids = append(ids, s.ID)
		}
	}
	if len(ids) == 0 {
		return nil, cloud.Errorf(cloud.KindInvalid, "no subnet of network %s for floating IPs: none of its %d candidates matches name %q and tags %q",
			network, len(subnets), w.fip.subnetName, w.fip.subnetTags)
	}
	return ids, nil
}
