package octavia

import (
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// delete takes the Service off all that it has. The floating IPs go first: as long as the load
// balancer is there, what is left of an interrupted deletion is found through it.
func (r *reconciliation) delete(ctx context.Context) error {
	gone, err := r.resumeDeletion(ctx)
	if err == nil && !gone {
		err = r.releaseAll(ctx)
	}
	if err != nil {
		return err
	}
	return r.deleteFirewall(ctx)
}

func (r *reconciliation) releaseAll(ctx context.Context) error {
	held, err := r.held(ctx)
	if err != nil {
		return err
	}
	made := false
	for i, h := range held {
		one := r.without(r.ref, h)
		one.work.id, one.last = h.lb.ID, h.role == plan.Owner && i == len(held)-1
		if err := one.release(ctx); err != nil {
			return err
		}
		made = made || h.role == plan.Owner
	}
	for _, h := range held {
		r.trees.Forget(h.lb.ID)
	}
	if made {
		return nil
	}
	// One may appear yet, with nobody left to know of it.
	if err := r.mayHaveLost(r.names.LB); err != nil {
		return err
	}
	return r.without(r.ref, &holding{names: r.names}).deleteFIPs(ctx, nil)
}

// without is the reconciliation in which the Service wants nothing of what it holds.
func (r *reconciliation) without(ref cloud.LoadBalancerRef, h *holding) *reconciliation {
	return &reconciliation{LoadBalancers: r.LoadBalancers, octavia: r.octavia, unlock: func() {},
		ref: ref, names: r.names, ev: plan.EvidenceOf(ref), lb: h.lb, work: work{holding: holding{names: h.names, role: h.role}}, desired: plan.Nothing(h.names)}
}

// release takes the Service off a load balancer. That goes, with its floating IPs, if it was made for the
// Service, or for another one of this cluster that is deleted, and nobody else uses it.
func (r *reconciliation) release(ctx context.Context) error {
	defer func() { r.unlock() }()
	if err := r.lock(ctx); err != nil {
		return err
	}
	lb, names := r.lb, r.work.names
	if r.work.role == plan.Tenant {
		inherited := strings.HasPrefix(lb.Name, plan.NamePrefix) && slices.Contains(lb.Tags, names.OwnerTag) && slices.Contains(lb.Tags, names.LB)
		if !inherited || len(names.OtherServices(lb.Tags)) > 0 {
			return r.leave(ctx)
		}
		r.work.role = plan.Owner
	}
	switch shared, err := r.isShared(ctx); {
	case err != nil:
		return err
	case shared:
		return r.run(ctx, func(ctx context.Context) error { return r.deleteFIPs(ctx, nil) }, r.leave)
	}
	return r.run(ctx, func(ctx context.Context) error { return r.deleteFIPs(ctx, lb) }, r.deleteOwn)
}

// isShared reports whether something on a load balancer that was made for the Service is not
// the Service's: the tag of another Service says so, or, as other controllers lose such
// tags, a listener. What is remembered is believed when Octavia knows of no other listener:
// one that came within a second of our own last change does not show in updated_at.
func (r *reconciliation) isShared(ctx context.Context) (bool, error) {
	switch {
	case r.lb.Status == stateDeleting:
		return false, nil
	case len(r.work.names.OtherServices(r.lb.Tags)) > 0:
		return true, nil
	}
	tree, err := r.listeners(ctx, r.lb, r.lb.Listeners...)
	if err != nil {
		return false, err
	}
	if !tree.HasAll(r.lb.Listeners...) {
		return false, r.retryLater("the list of load balancer %s's listeners lacks some that it has", r.lb.ID)
	}
	return slices.ContainsFunc(tree.Listeners, func(l *plan.Listener) bool { return !r.work.names.IsOurs(l, plan.Owner) }), nil
}

// deleteFIPs deletes the floating IPs that are provably ours: those that were made for lb, by the
// description, and that are attached to it, which is about to be deleted; and those of exactly this
// Service that have the address it has published and are attached to nothing. So those of a Service of
// the same name in a cluster of the same name stay. lb is nil when none goes.
func (r *reconciliation) deleteFIPs(ctx context.Context, lb *plan.LoadBalancer) error {
	if r.ref.Settings.Bool(plan.AnnKeepFloatingIP, false) {
		return nil
	}
	published := slices.Clone(r.ev.Status) // before all is done there is no annotation yet
	if address := r.ref.Settings.String(plan.AnnAddress, ""); address != "" {
		published = slices.DeleteFunc(published, func(a string) bool { return a != address })
	}
	var gone []neutron.FloatingIP
	if lb != nil {
		attached, err := r.attachedFIPs(ctx, lb)
		if err != nil {
			return err
		}
		gone = slices.DeleteFunc(attached, func(f neutron.FloatingIP) bool { return !r.work.names.IsFIPOf(lb, f.Description) })
		known := append(addressesOf(gone), lb.VIPAddress)
		published = slices.DeleteFunc(published, func(a string) bool { return slices.Contains(known, a) })
	}
	if len(published) > 0 {
		unused, err := r.unusedFIPs(ctx, r.work.names)
		if err != nil {
			return err
		}
		gone = append(gone, slices.DeleteFunc(unused, func(f neutron.FloatingIP) bool { return !slices.Contains(published, f.Address) })...)
	}
	for _, f := range gone {
		if err := r.floating.Delete(ctx, &f); err != nil {
			return err
		}
	}
	return nil
}

// deleteOwn deletes the load balancer that was made for the Service.
func (r *reconciliation) deleteOwn(ctx context.Context) error {
	if r.lb.Status == stateDeleting {
		return r.waitGone(ctx, r.lb.ID)
	}
	// In state ERROR it can be deleted, too.
	if err := r.waitIdle(ctx); cloud.KindOf(err) == cloud.KindRetryAfter {
		return err
	}
	if r.cfg.LoadBalancer.CascadeDelete {
		return r.deleteLB(ctx, true)
	}
	if err := r.run(ctx, r.observeAll, r.plan, r.apply); err != nil {
		return err
	}
	return r.deleteLB(ctx, false)
}

// deleteLB deletes the load balancer and waits until it is gone.
func (r *reconciliation) deleteLB(ctx context.Context, cascade bool) error {
	r.forgetReads(r.lb.ID)
	if err := r.pendingOr(ctx, r.octavia.Delete(ctx, r.lb.ID, cascade)); err != nil {
		return err
	}
	return r.waitGone(ctx, r.lb.ID)
}

// releasePrevious takes the Service off the load balancers that it used before: the annotation
// was moved to another one, or a creation whose answer was lost has made one too many. They
// carry the Service's tag. It is done last, so that the Service is served by the one before
// it is taken from the other.
//
// It looks for them only when there may be some: the load balancer was not the Service's
// before, or the Service has published the address of another one, which it does until this
// has succeeded once; so a crash in between loses nothing.
func (r *reconciliation) releasePrevious(ctx context.Context) error {
	r.unlock()
	published, own := r.service.Published(), r.work.names
	moved := len(published) > 0 && !slices.Contains(published, r.status.Annotations[plan.AnnAddress])
	var all []plan.LoadBalancer
	var err error
	switch {
	case r.work.claimed || moved: // where it was before, it may have another cluster name
		all, err = r.octavia.List(ctx)
	case r.work.surplus || r.service.Spec.Verify:
		all, err = r.octavia.Tagged(ctx, own.LB)
	}
	if err != nil {
		return err
	}
	for i := range all {
		lb := &all[i]
		if r.octavia.IsElsewhere(lb) || lb.ID == r.lb.ID || own.IsForeign(lb.Tags) || lb.Status == stateDeleting {
			continue
		}
		for _, tag := range lb.Tags { // those of former cluster names, too
			if tag != own.LB && !own.IsOwnTag(tag) {
				continue
			}
			if err := r.releaseTag(ctx, lb, tag); err != nil && !cloud.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

// releaseTag takes the Service, by its tag, off a load balancer that it does not use any more.
func (r *reconciliation) releaseTag(ctx context.Context, lb *plan.LoadBalancer, tag string) error {
	h := &holding{lb: lb, names: r.work.names.Tagged(tag)}
	if made, ok := h.names.MadeFor(lb); ok && made.LB == tag {
		h.names, h.role = made, plan.Owner
	}
	if ours, err := r.wasOurs(ctx, lb, tag); err != nil || !ours {
		if err == nil {
			leaveAlone(ctx, lb)
		}
		return err
	}
	// The address that the Service has published may be kept by the load balancer that it has.
	ref := r.ref
	ref.CurrentIngress, ref.Settings = nil, maps.Clone(ref.Settings)
	delete(ref.Settings, plan.AnnAddress)
	klog.FromContext(ctx).V(2).Info("Taking the Service off a load balancer that it does not use any more", "loadBalancer", lb.ID, "name", lb.Name)
	return r.without(ref, h).release(ctx)
}

// wasOurs reports whether the Service of this cluster, and not one of the same name in another
// cluster, has put a tag on a load balancer: it was made for the Service and has the cluster's
// tag, or a listener on it has both tags, or the tag is the Service's of today and it has
// published the load balancer's address.
func (r *reconciliation) wasOurs(ctx context.Context, lb *plan.LoadBalancer, tag string) (bool, error) {
	names, published := r.work.names, r.service.Published()
	today := tag == names.LB || tag == r.names.LB
	switch {
	case slices.Contains(lb.Tags, names.OwnerTag) && (today || lb.Name == tag):
		return true, nil
	case lb.Name == tag: // to be deleted; made before there were such tags
		return false, nil
	case today && slices.Contains(published, lb.VIPAddress):
		return true, nil
	}
	listeners, err := r.octavia.Listeners(ctx, lb.ID)
	if err != nil {
		return false, err
	}
	for _, l := range listeners {
		if slices.Contains(l.Tags, tag) && slices.Contains(l.Tags, names.OwnerTag) {
			return true, nil
		}
	}
	if !today {
		return false, nil
	}
	fips, err := r.attachedFIPs(ctx, lb)
	return slices.ContainsFunc(addressesOf(fips), func(a string) bool { return slices.Contains(published, a) }), err
}
