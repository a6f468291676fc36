package openstack

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// Delete implements cloud.LoadBalancers. The floating IPs go first: as long as the load
// balancer is there, what is left of an interrupted deletion is found through it.
func (l *LoadBalancers) Delete(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	ref := spec.LoadBalancerRef
	l.repairs.take(ref.UID)
	o, err := l.operation(ctx, ref)
	if err != nil {
		return err
	}
	gone, err := o.resumeDeletion(ctx, ref)
	if err == nil && !gone {
		err = o.delete(ctx, ref)
	}
	switch {
	case err != nil:
	case l.cfg.LoadBalancer.ManageSecurityGroups:
		err = o.deleteGroups(ctx, ref)
	default:
		err = o.deleteOldGroup(ctx, ref)
	}
	if err == nil {
		l.oldGroups.forget(ref)
	}
	if cloud.IsNotFound(err) {
		// Something went while we were at it. That is no proof that all of it has gone.
		return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: l.waits.retry, Err: err}
	}
	return err
}

func (o *lbOperation) delete(ctx context.Context, ref cloud.LoadBalancerRef) error {
	held, err := o.held(ctx, ref)
	if err != nil {
		return err
	}
	made := false
	for i, h := range held {
		made = made || h.owner
		o.work = lbWork{id: h.lb.ID, names: h.names, owner: h.owner}
		o.last = h.owner && i == len(held)-1
		if err := o.inTurn(ctx, h.lb, func(lb *octaviaLB) error {
			if h.owner {
				return o.deleteMade(ctx, ref, h.names, lb)
			}
			return o.leaveShared(ctx, ref, h.names, lb)
		}); err != nil {
			return err
		}
	}
	for _, h := range held {
		o.lb.trees.forget(h.lb.ID)
		o.lb.renamed.forget(h.lb.ID)
	}
	if made {
		return nil
	}
	// One may appear yet, with nobody left to know of it.
	if err := o.lb.creations.pass(namesFor(ref).lb, o.lb.now()); err != nil {
		return err
	}
	return o.deleteFIPs(ctx, ref, namesFor(ref), nil)
}

// inTurn calls f with the load balancer when it is its turn. One that has gone meanwhile is
// none to f, which is for deletions.
func (o *lbOperation) inTurn(ctx context.Context, lb *octaviaLB, f func(*octaviaLB) error) error {
	done, waited, err := o.lb.locks.Lock(ctx, lb.ID)
	if err != nil {
		return fmt.Errorf("load balancer %s: wait for the other Service's change to end: %w", lb.ID, err)
	}
	defer done()
	if waited {
		if lb, err = o.get(ctx, lb.ID); err != nil {
			return err
		}
	}
	return f(lb)
}

// deleteMade deletes a load balancer that was made for a Service, with its floating IPs,
// unless somebody else uses it.
func (o *lbOperation) deleteMade(ctx context.Context, ref cloud.LoadBalancerRef, names lbNames, lb *octaviaLB) error {
	shared, err := o.isShared(ctx, names, lb)
	if err != nil {
		return err
	}
	if shared {
		if err := o.deleteFIPs(ctx, ref, names, nil); err != nil {
			return err
		}
		return o.leave(ctx, ref, names, lb, true)
	}
	if err := o.deleteFIPs(ctx, ref, names, lb); err != nil {
		return err
	}
	return o.deleteOwn(ctx, ref, names, lb)
}

// isShared reports whether something on a load balancer that was made for the Service is not
// the Service's: the tag of another Service says so, or, as other controllers lose such
// tags, a listener. What is remembered is believed when Octavia knows of no other listener:
// one that came within a second of our own last change does not show in updated_at.
func (o *lbOperation) isShared(ctx context.Context, names lbNames, lb *octaviaLB) (bool, error) {
	switch {
	case lb.Status == "PENDING_DELETE":
		return false, nil
	case len(names.otherServices(lb.Tags)) > 0:
		return true, nil
	}
	var tree lbTree
	if known, ok := o.lb.trees.get(lb, o.lb.now()); ok && known.tree.hasAll(lb.Listeners) {
		tree = *known.tree
	} else {
		listeners, err := readListeners(ctx, o.octavia, lb.ID)
		if err != nil {
			return false, err
		}
		for _, l := range listeners {
			tree.Listeners = append(tree.Listeners, l.node(nil))
		}
		if !tree.hasAll(lb.Listeners) {
			return false, o.retryLater("the list of load balancer %s's listeners lacks some that it has", lb.ID)
		}
	}
	ownership := lbOwnership{names: names, owner: true}
	return slices.ContainsFunc(tree.Listeners, func(l *lbListener) bool { return !ownership.isOurs(l) }), nil
}

// leaveShared takes the Service off a load balancer that was not made for it, whose addresses
// stay. If it was made for another Service of this cluster that is deleted, and no Service is
// left, it goes.
func (o *lbOperation) leaveShared(ctx context.Context, ref cloud.LoadBalancerRef, names lbNames, lb *octaviaLB) error {
	inherited := strings.HasPrefix(lb.Name, lbNamePrefix) && slices.Contains(lb.Tags, names.owner) && slices.Contains(lb.Tags, names.lb)
	if inherited && len(names.otherServices(lb.Tags)) == 0 {
		return o.deleteMade(ctx, ref, names, lb)
	}
	return o.leave(ctx, ref, names, lb, false)
}

// deleteFIPs deletes the floating IPs that are provably ours: those that were made for lb, by the
// description, and that are attached to it, which is about to be deleted; and those of exactly this Service that have the address it has published and are
// attached to nothing. So those of a Service of the same name in a cluster of the same name
// stay. lb is nil when none goes.
func (o *lbOperation) deleteFIPs(ctx context.Context, ref cloud.LoadBalancerRef, names lbNames, lb *octaviaLB) error {
	if ref.Settings.Bool(annKeepFloatingIP, false) {
		return nil
	}
	address := ref.Settings.String(annAddress, "")
	if !slices.Contains(evidenceOf(ref).status, address) {
		address = ""
	}
	if lb != nil {
		attached, err := o.attachedFIPs(ctx, lb)
		if err != nil {
			return err
		}
		for _, f := range attached {
			if !names.isFIPOf(lb, f.Description) {
				continue
			}
			if err := o.lb.floating.Delete(ctx, &f); err != nil {
				return err
			}
			if f.Address == address {
				address = ""
			}
		}
		if address == lb.VIPAddress {
			address = ""
		}
	}
	if address == "" {
		return nil
	}
	fips, err := o.lb.floating.Own(ctx, "description", names.fipDescription)
	if err != nil {
		return err
	}
	for _, f := range fips {
		if f.Description == names.fipDescription && f.PortID == "" && f.Address == address {
			if err := o.lb.floating.Delete(ctx, &f); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteOwn deletes the load balancer that was made for the Service.
func (o *lbOperation) deleteOwn(ctx context.Context, ref cloud.LoadBalancerRef, names lbNames, lb *octaviaLB) error {
	switch {
	case lb.Status == "PENDING_DELETE":
		return o.waitDeleted(ctx, lb.ID)
	case lb.isPending():
		// In state ERROR it can be deleted, too.
		if _, err := o.waitIdle(ctx, lb.ID); err != nil && cloud.KindOf(err) == cloud.KindRetryAfter {
			return err
		}
	}
	if o.lb.cfg.LoadBalancer.CascadeDelete {
		o.work.deleting = o.last
		return o.deleteLB(ctx, lb)
	}
	if _, err := o.removeChildren(ctx, ref, names, lb, true); err != nil {
		return err
	}
	o.changes(lb.ID)
	if err := gone(loadbalancers.Delete(ctx, o.octavia, lb.ID, loadbalancers.DeleteOpts{}).Err); err != nil {
		return o.pendingOr(ctx, lb.ID, api.WrapError("delete load balancer "+lb.ID, err))
	}
	return o.waitDeleted(ctx, lb.ID)
}

// waitDeleted is waitGone for the load balancer that was made for the Service which is deleted.
func (o *lbOperation) waitDeleted(ctx context.Context, id string) error {
	o.work.deleting = o.last
	return o.waitGone(ctx, id)
}

// leave takes the Service's listeners and tag off a load balancer that stays. The tag goes
// last: it is what says that there may still be something to remove.
func (o *lbOperation) leave(ctx context.Context, ref cloud.LoadBalancerRef, names lbNames, lb *octaviaLB, owner bool) error {
	if lb.isPending() {
		var err error
		if lb, err = o.waitIdle(ctx, lb.ID); err != nil {
			return err
		}
	}
	lb, err := o.removeChildren(ctx, ref, names, lb, owner)
	if err != nil || !slices.Contains(lb.Tags, names.lb) {
		return err
	}
	_, err = o.retag(ctx, lb, func(tags []string) []string {
		return slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return t == names.lb })
	})
	return err
}

// removeChildren deletes the Service's listeners and pools.
func (o *lbOperation) removeChildren(ctx context.Context, ref cloud.LoadBalancerRef, names lbNames, lb *octaviaLB, owner bool) (*octaviaLB, error) {
	o.changes(lb.ID)
	tree, err := readTree(ctx, o.octavia, lb.ID)
	if err != nil {
		return nil, err
	}
	if !tree.hasAll(lb.Listeners) || !tree.hasPools(lb.Pools) { // what they lack would stay behind
		return nil, o.retryLater("the lists of load balancer %s's listeners and pools lack some that it has", lb.ID)
	}
	changes, next, err := diffTree(tree, &lbTree{}, lbOwnership{names: names, owner: owner, ovn: lb.Provider == config.ProviderOVN})
	if err != nil {
		return nil, err
	}
	return o.apply(ctx, ref, lb, &treeEntry{tree: next, todo: changes, readAt: o.lb.now()})
}

// pendingOr returns KindRetryAfter when Octavia is working on the load balancer, so that it
// refused a change, and err otherwise.
func (o *lbOperation) pendingOr(ctx context.Context, id string, err error) error {
	if !cloud.IsStale(err) {
		return err
	}
	if lb, getErr := o.get(ctx, id); getErr == nil && lb.isPending() {
		return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: o.lb.waits.retry, Err: err}
	}
	return err
}
