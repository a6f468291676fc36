package openstack

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// settle brings a load balancer into a state in which it takes changes: it waits for work
// that is under way, and gives up one that failed before it ever served anybody (nil: there
// is none any more).
func (o *lbOperation) settle(ctx context.Context, w *lbWishes, lb *octaviaLB, owner bool) (*octaviaLB, error) {
	switch {
	case lb.Status == "PENDING_DELETE":
		if err := o.waitGone(ctx, lb.ID); err != nil {
			return nil, err
		}
		if !owner {
			return nil, cloud.Errorf(cloud.KindInvalid, "annotation %s: load balancer %s was deleted; remove the annotation", annLoadBalancerID, lb.ID)
		}
		return nil, nil
	case lb.isPending():
		after, err := o.waitIdle(ctx, lb.ID)
		if err == nil || after == nil && cloud.KindOf(err) == cloud.KindRetryAfter {
			return after, err
		}
		if lb, err = o.get(ctx, lb.ID); err != nil {
			return nil, err
		}
		return o.settle(ctx, w, lb, owner)
	case lb.Status != stateError:
		return lb, nil
	}
	neverServed := owner && slices.Contains(lb.Tags, w.names.owner) && len(w.spec.CurrentIngress) == 0 && !w.spec.Settings.Has(annAddress)
	if !neverServed || len(w.names.otherServices(lb.Tags)) > 0 {
		return nil, errorState(lb)
	}
	klog.FromContext(ctx).V(2).Info("Deleting a load balancer whose creation failed", "loadBalancer", lb.ID)
	// Its floating IP was made with it and goes with it. One to be kept is one that was there before.
	if _, err := o.removeFIPs(ctx, w.names, w.keepFIP && w.fip.address.IsValid(), lb); err != nil {
		return nil, err
	}
	return nil, o.deleteLB(ctx, lb)
}

// deleteLB deletes a load balancer with its children and waits until it is gone.
func (o *lbOperation) deleteLB(ctx context.Context, lb *octaviaLB) error {
	o.changes(lb.ID)
	err := o.lb.changes.do(ctx, func() error {
		return loadbalancers.Delete(ctx, o.octavia, lb.ID, loadbalancers.DeleteOpts{Cascade: true}).Err
	})
	if err := gone(err); err != nil {
		return o.pendingOr(ctx, lb.ID, api.WrapError("delete load balancer "+lb.ID, err))
	}
	return o.waitGone(ctx, lb.ID)
}

// claim marks the load balancer as the Service's: as the cluster's with the owner's tag
// (once, for one that was made before there were such tags), or as used by the Service. A
// load balancer on which there is no room for the Service stays as it is: the tag would keep
// its owner from deleting it.
func (o *lbOperation) claim(ctx context.Context, w *lbWishes, lb *octaviaLB, owner bool, actual, want *lbTree) (*octaviaLB, error) {
	tags := withTags(lb.Tags, w.names.lb)
	if owner {
		tags = withTags(tags, w.names.owner)
	}
	if len(tags) == len(lb.Tags) {
		return lb, nil
	}
	if _, _, err := w.diff(lb, owner, actual, want); err != nil {
		return nil, err
	}
	if !owner {
		if others := w.names.otherServices(lb.Tags); len(others) >= w.cfg.MaxSharedLB {
			return nil, cloud.Errorf(cloud.KindConflict, "load balancer %s is shared by %d Services already, and [LoadBalancer] max-shared-lb is %d: use another one or raise the limit",
				lb.ID, len(others), w.cfg.MaxSharedLB)
		}
	}
	o.work.claimed = !slices.Contains(lb.Tags, w.names.lb)
	return o.retag(ctx, lb, func(tags []string) []string {
		if tags = withTags(tags, w.names.lb); owner {
			tags = withTags(tags, w.names.owner)
		}
		return tags
	})
}
