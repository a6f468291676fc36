package openstack

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
)

// A Service that names, by the annotation load-balancer-id, a load balancer that was not made
// for it shares it as it is: its addresses are the business of the Service that it was made
// for, or of the user. A sharer adds and removes none: by a floating IP of its own it would
// publish the ports of everybody on an internal load balancer to the internet.
//
// So it must have the exposure that the load balancer has. That is decided before anything is
// made for it. When it changes later the sharer's listeners and members are kept up to date
// all the same, and its error or warning says what is wrong.

// sharedFIP returns the floating IP by which a sharer is reached, "" for none.
func (o *lbOperation) sharedFIP(ctx context.Context, w *lbWishes, lb *octaviaLB) (string, error) {
	attached, err := o.attachedFIPs(ctx, lb)
	if err != nil {
		return "", err
	}
	joined := slices.Contains(lb.Tags, w.names.lb)
	switch {
	case w.internal && len(attached) > 0:
		err := cloud.Errorf(cloud.KindConflict, "load balancer %s is reached from outside by the floating IP %s, and the Service is to be internal: use an internal load balancer, or remove the annotation %s to get one of its own",
			lb.ID, attached[0].Address, annLoadBalancerID)
		published := publishedAddresses(w)
		switch {
		case !joined:
			return "", err
		case slices.ContainsFunc(attached, func(f neutron.FloatingIP) bool { return slices.Contains(published, f.Address) }):
			w.refuseLater(err) // it keeps the address by which clients reach it
		default:
			o.warnings = append(o.warnings, err.Error())
		}
		return "", nil
	case !w.hasFIP() || !lb.hasIPv4():
		return "", nil
	case len(attached) == 0:
		err := cloud.Errorf(cloud.KindConflict, "load balancer %s has no floating IP, and only the Service that it was made for may give it one, as it concerns all who share it: let that Service be external, attach a floating IP to port %s, or let this Service be internal (annotation %s)",
			lb.ID, lb.VIPPortID, annInternal)
		if joined {
			w.refuseLater(err)
			return "", nil
		}
		return "", err
	}
	floating := attached[0].Address
	for _, f := range attached {
		if f.Address == w.fip.address.String() {
			return f.Address, nil
		}
		if slices.Contains(publishedAddresses(w), f.Address) {
			floating = f.Address
		}
	}
	if w.fip.address.IsValid() {
		o.warnings = append(o.warnings, fmt.Sprintf("spec.loadBalancerIP %s has no effect: load balancer %s was not made for this Service and has the floating IP %s", w.fip.address, lb.ID, floating))
	}
	return floating, nil
}

// mayShare refuses a load balancer on which a Service of the same name is, in another cluster of the
// same name: the listeners with the Service's tag are that one's, unless our cluster's mark is on one
// of them or the Service has published an address of the load balancer, as after a takeover.
func (o *lbOperation) mayShare(ctx context.Context, names lbNames, ev evidence, lb *octaviaLB) error {
	if !slices.Contains(lb.Tags, names.lb) || slices.Contains(ev.published, lb.VIPAddress) {
		return nil
	}
	tags, err := o.listenerTags(ctx, lb)
	if err != nil {
		return err
	}
	tags = slices.DeleteFunc(tags, func(tags []string) bool { return !slices.Contains(tags, names.lb) })
	if len(tags) == 0 || slices.ContainsFunc(tags, func(tags []string) bool { return slices.Contains(tags, names.owner) }) {
		return nil
	}
	if proven, err := o.shows(ctx, ev, lb); err != nil || proven {
		return err
	}
	return cloud.Errorf(cloud.KindConflict,
		"load balancer %s has listeners with the tag %q and without this cluster's: they may be those of another cluster of the name %q. Use another load balancer or give the clusters different names (--cluster-name); if they are this Service's, set the annotation %s: %s",
		lb.ID, names.lb, names.cluster, annAddress, lb.VIPAddress)
}

// listenerTags are the tags of each listener of a load balancer, as remembered or read.
func (o *lbOperation) listenerTags(ctx context.Context, lb *octaviaLB) (tags [][]string, err error) {
	if known, ok := o.lb.trees.get(lb, o.lb.now()); ok {
		for _, l := range known.tree.Listeners {
			tags = append(tags, l.Tags)
		}
		return tags, nil
	}
	listeners, err := readListeners(ctx, o.octavia, lb.ID)
	for _, l := range listeners {
		tags = append(tags, l.Tags)
	}
	return tags, err
}

// refuseLater makes err the answer when all else that the Service wants is done.
func (w *lbWishes) refuseLater(err error) {
	if w.refused == nil {
		w.refused = err
	}
}

// mayExpose refuses the owner of an internal load balancer a floating IP while others share
// it: whoever came to it when it was internal may rely on that. One that it had before, and
// lost, it gets again, if the Service's status shows it: what annotations say is its user's word.
func (w *lbWishes) mayExpose(lb *octaviaLB) error {
	sharers := w.names.otherServices(lb.Tags)
	if len(sharers) == 0 {
		return nil
	}
	if slices.ContainsFunc(w.spec.CurrentIngress, func(in corev1.LoadBalancerIngress) bool {
		addr, err := netip.ParseAddr(in.IP)
		return err == nil && addr.Is4() && in.IP != lb.VIPAddress && in.IP != lb.secondAddress()
	}) {
		return nil
	}
	return cloud.Errorf(cloud.KindConflict, "load balancer %s gets no floating IP while it is shared: it would publish %s as well; give those a load balancer of their own first, or let this Service be internal (annotation %s)",
		lb.ID, strings.Join(sharers, ", "), annInternal)
}

// hasIPv4 reports whether a VIP is one that a floating IP can lead to.
func (lb *octaviaLB) hasIPv4() bool {
	for _, a := range []string{lb.VIPAddress, lb.secondAddress()} {
		if addr, err := netip.ParseAddr(a); err == nil && addr.Is4() {
			return true
		}
	}
	return false
}
