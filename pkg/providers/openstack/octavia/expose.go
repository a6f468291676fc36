package octavia

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// attachedFIPs are the floating IPs of a load balancer's VIP.
func (r *reconciliation) attachedFIPs(ctx context.Context, lb *plan.LoadBalancer) ([]neutron.FloatingIP, error) {
	if lb.VIPPortID == "" {
		return nil, nil // Neutron takes an empty filter for none
	}
	return r.floating.OfPort(ctx, lb.VIPPortID)
}

func addressesOf(fips []neutron.FloatingIP) []string {
	var out []string
	for _, f := range fips {
		out = append(out, f.Address)
	}
	return out
}

// expose gives the VIP of the owner its floating IP, or takes it away from an internal one.
func (r *reconciliation) expose(ctx context.Context) (err error) {
	fresh, early := r.known.phase.isNew(), r.known.floating
	r.known.phase, r.known.floating = current, ""
	r.remember()
	own := r.desired.Names.LB
	switch {
	case r.work.role == plan.Tenant:
		return nil
	case r.desired.HasFIP():
		r.known.internal = ""
		if r.address = early; early == "" {
			r.address, err = r.ensureFIP(ctx, false)
		}
	case r.known.internal != own && !fresh:
		var left string
		left, err = r.removeFIPs(ctx, r.service.KeepFloatingIP)
		if r.known.internal = own; left != "" {
			r.known.internal = ""
			r.warnings = append(r.warnings, fmt.Sprintf("load balancer %s keeps the floating IP %s, by which other Services that share it are reached: so this Service is reached there as well; give those a load balancer of their own", r.lb.ID, left))
		}
	default:
		r.known.internal = own
	}
	if err == nil {
		r.remember()
	}
	return err
}

// exposeEarly gives the VIP of a load balancer that Octavia has only begun to make its floating IP,
// which needs the VIP's port only. Where it gets none, which is a warning, that is told when the load
// balancer is there.
func (r *reconciliation) exposeEarly(ctx context.Context) (err error) {
	if !r.desired.HasFIP() || r.lb.VIPPortID == "" {
		return nil
	}
	warnings := len(r.warnings)
	r.known.floating, err = r.ensureFIP(ctx, true)
	r.warnings = r.warnings[:warnings]
	return err
}

// ensureFIP gives the VIP its floating IP and returns the address. fresh says that the VIP's
// port was made by this operation, so that it has none yet.
func (r *reconciliation) ensureFIP(ctx context.Context, fresh bool) (string, error) {
	if r.lb.VIPPortID == "" {
		return "", fmt.Errorf("load balancer %s has no VIP port that a floating IP could lead to", r.lb.ID)
	}
	var attached []neutron.FloatingIP
	if !fresh {
		var err error
		if attached, err = r.attachedFIPs(ctx, r.lb); err != nil {
			return "", err
		}
	}
	if len(attached) > 0 {
		return r.attachedAddress(addressesOf(attached)), nil
	}
	if r.refused = r.desired.MayExpose(r.lb); r.refused != nil {
		return "", nil //nolint:nilerr // publish tells it
	}
	// The VIP may be new although the Service was served before: it keeps its address.
	find := r.publishedFIP
	if r.service.FloatingIP.Address.IsValid() {
		find = r.wantedFIP
	}
	if old, err := find(ctx); err != nil {
		return "", err
	} else if old != nil {
		return old.Address, r.floating.Attach(ctx, old, r.lb.VIPPortID)
	}
	return r.createFIP(ctx)
}

// attachedAddress is the address by which the VIP is reached already. It stays: clients use it, and
// other controllers ignore spec.loadBalancerIP as long as there is one.
func (r *reconciliation) attachedAddress(attached []string) string {
	wanted := r.service.FloatingIP.Address
	if !wanted.IsValid() || slices.Contains(attached, wanted.String()) {
		return cmp.Or(addressIf(wanted), attached[0])
	}
	r.warnings = append(r.warnings, fmt.Sprintf("spec.loadBalancerIP %s has no effect: load balancer %s is reached by the floating IP %s; disassociate that one first, and this one is associated", wanted, r.lb.ID, attached[0]))
	return attached[0]
}

// addressIf writes an address, "" for none.
func addressIf(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// wantedFIP finds the floating IP of spec.loadBalancerIP.
func (r *reconciliation) wantedFIP(ctx context.Context) (*neutron.FloatingIP, error) {
	address := r.service.FloatingIP.Address.String()
	found, err := r.floating.Own(ctx, "floating_ip_address", address)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	for _, f := range found {
		if f.PortID != "" && f.PortID != r.lb.VIPPortID {
			return nil, cloud.Errorf(cloud.KindConflict, "spec.loadBalancerIP: floating IP %s is in use by port %s", address, f.PortID)
		}
	}
	return &found[0], nil
}

// publishedFIP finds an unused floating IP of ours whose address the Service has published: by its
// status, as the description may be that of a Service in another cluster of the same name.
func (r *reconciliation) publishedFIP(ctx context.Context) (*neutron.FloatingIP, error) {
	published := r.ev.Status
	if len(published) == 0 {
		return nil, nil
	}
	fips, err := r.unusedFIPs(ctx, r.desired.Names)
	for _, f := range fips {
		if slices.Contains(published, f.Address) {
			return &f, nil
		}
	}
	return nil, err
}

// unusedFIPs are those that lead nowhere and were made for a Service of the name.
func (r *reconciliation) unusedFIPs(ctx context.Context, names plan.Names) ([]neutron.FloatingIP, error) {
	fips, err := r.floating.Own(ctx, "description", names.FIPDescription)
	return slices.DeleteFunc(fips, func(f neutron.FloatingIP) bool { return f.Description != names.FIPDescription || f.PortID != "" }), err
}

// removeFIPs takes our floating IPs off a load balancer that needs none: one that we made is deleted
// unless it is to be kept. One that somebody else put there stays, and so does one that other Services of
// the load balancer publish: left is its address.
func (r *reconciliation) removeFIPs(ctx context.Context, keep bool) (left string, err error) {
	attached, err := r.attachedFIPs(ctx, r.lb)
	if err != nil {
		return "", err
	}
	for _, f := range attached {
		switch {
		case len(r.work.names.OtherServices(r.lb.Tags)) > 0:
			left = f.Address
		case !r.work.names.IsFIP(f.Description):
		case keep:
			err = r.floating.Detach(ctx, &f)
		default:
			err = r.floating.Delete(ctx, &f)
		}
		if err != nil {
			return "", err
		}
	}
	return left, nil
}

// createFIP makes a floating IP, attached to the VIP from its first moment on, so that a crash cannot
// leave one that nothing points to, and returns its address. "", and a warning, where there is no
// external network to take it from.
func (r *reconciliation) createFIP(ctx context.Context) (string, error) {
	wanted := r.service.FloatingIP
	network, err := r.floatingNetwork(ctx)
	if err != nil {
		return "", err
	}
	if network == "" {
		r.warnings = append(r.warnings, "there is no external network for a floating IP, so that the address of the VIP is published; set [LoadBalancer] floating-network-id in cloud.conf or the annotation "+plan.AnnFloatingNetworkID)
		return "", nil
	}
	subnets, err := r.fipSubnets(ctx, network)
	if err != nil {
		return "", err
	}
	var errs []error
	for _, subnet := range subnets {
		made, err := r.floating.Create(ctx, floatingips.CreateOpts{FloatingNetworkID: network, SubnetID: subnet, PortID: r.lb.VIPPortID,
			Description: r.desired.Names.FIPDescription, FloatingIP: addressIf(wanted.Address)})
		if err == nil {
			return made.Address, nil
		}
		if wanted.Address.IsValid() && cloud.KindOf(err) == cloud.KindDenied {
			err = &cloud.Error{Kind: cloud.KindDenied, Err: fmt.Errorf("%w: spec.loadBalancerIP %s is no floating IP of this project, and only administrators choose the address of a new one; create it beforehand", err, wanted.Address)}
		}
		errs = append(errs, err)
		// Another subnet helps only when this one is full or does not hold the address.
		if k := cloud.KindOf(err); k != cloud.KindQuota && k != cloud.KindConflict && k != cloud.KindStale && k != cloud.KindInvalid {
			break
		}
	}
	if wanted.NetworkID == "" {
		r.subnets.ForgetExternal()
	}
	if len(errs) == 1 {
		return "", errs[0]
	}
	return "", errors.Join(errs...)
}

// floatingNetwork is where floating IPs come from, "" for nowhere.
func (r *reconciliation) floatingNetwork(ctx context.Context) (string, error) {
	if id := r.service.FloatingIP.NetworkID; id != "" {
		return id, nil
	}
	return r.subnets.External(ctx)
}

// fipSubnets are the subnets to try for a floating IP, "" for whichever Neutron takes.
func (r *reconciliation) fipSubnets(ctx context.Context, network string) ([]string, error) {
	wanted := r.service.FloatingIP
	pattern := wanted.SubnetName != "" || wanted.SubnetTags != ""
	if wanted.SubnetID != "" || !pattern || wanted.Address.IsValid() { // an address names its subnet
		return []string{wanted.SubnetID}, nil
	}
	if problem := r.service.SubnetPatternProblem(); problem != nil {
		return nil, cloud.Refuse(cloud.KindInvalid, "find the subnet for floating IPs", field.ErrorList{problem})
	}
	match, err := config.SubnetMatcher(wanted.SubnetName)
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	if name, tags := tagFilter(wanted.SubnetTags); tags != "" {
		query.Set(name, tags)
	}
	subnets, err := r.subnets.In(ctx, network, query)
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
			network, len(subnets), wanted.SubnetName, wanted.SubnetTags)
	}
	return ids, nil
}

// checkFloatingSubnet refuses a floating subnet that there is not, or that is of another network,
// before a load balancer is made for which there would be no address.
func (r *reconciliation) checkFloatingSubnet(ctx context.Context) error {
	id := r.service.FloatingIP.SubnetID
	if id == "" || r.service.Internal || r.service.IsIPv6() {
		return nil
	}
	network, err := r.floatingNetwork(ctx)
	if err != nil || network == "" {
		return err
	}
	is, err := r.subnets.NetworkOf(ctx, id)
	switch {
	case cloud.IsNotFound(err):
		return &cloud.Error{Kind: cloud.KindInvalid, Err: fmt.Errorf("floating IPs: %w; correct floating-subnet-id", err)}
	case err == nil && is != network:
		return cloud.Errorf(cloud.KindInvalid, "the subnet of floating IPs %s is of network %s, not of %s; correct floating-subnet-id or floating-network-id", id, is, network)
	}
	return err
}

// tagFilter reads tags, separated by commas or blanks, as Neutron's filter and its value: one of
// them, after & all of them, after ! not all of them, and after !& none of them.
func tagFilter(text string) (name, tags string) {
	rest, not := strings.CutPrefix(text, "!")
	rest, all := strings.CutPrefix(rest, "&")
	name = map[[2]bool]string{{false, false}: "tags-any", {false, true}: "tags", {true, false}: "not-tags", {true, true}: "not-tags-any"}[[2]bool{not, all}]
	items := strings.FieldsFunc(rest, func(c rune) bool { return c == ',' || unicode.IsSpace(c) })
	return name, strings.Join(items, ",")
}
