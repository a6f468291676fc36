package openstack

import (
	"context"
	"maps"
	"net/url"
	"slices"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// leaveFormer takes the Service off the load balancers that it used before: the annotation
// was moved to another one, or a creation whose answer was lost has made one too many. They
// carry the Service's tag. It is done last, so that the Service is served by the one before
// it is taken from the other.
//
// It looks for them only when there may be some: the load balancer was not the Service's
// before, or the Service has published the address of another one, which it does until this
// has succeeded once; so a crash in between loses nothing.
func (o *lbOperation) leaveFormer(ctx context.Context, w *lbWishes, status *cloud.LoadBalancerStatus) error {
	published := publishedAddresses(w)
	moved := len(published) > 0 && !slices.Contains(published, status.Annotations[annAddress])
	if !o.claimed && !o.surplus && !moved && !w.spec.Verify {
		return nil
	}
	tagged, err := listAll[octaviaLB](ctx, o.octavia, "lbaas/loadbalancers", url.Values{"tags": {w.names.lb}}, "loadbalancers")
	if err != nil {
		return wrapError("list load balancers with tag "+w.names.lb, err)
	}
	// The address that the Service has published may be kept by the load balancer that it has.
	ref := w.spec.LoadBalancerRef
	ref.Settings = maps.Clone(ref.Settings)
	delete(ref.Settings, annAddress)
	project := projectOf(o.octavia)
	for i := range tagged {
		lb := &tagged[i]
		switch {
		case lb.ID == status.Annotations[annLoadBalancerID], !slices.Contains(lb.Tags, w.names.lb), w.names.isForeign(lb.Tags),
			project != "" && lb.ProjectID != "" && lb.ProjectID != project, lb.Status == "PENDING_DELETE":
			continue
		}
		ours, err := o.wasOurs(ctx, w, lb, published)
		if err != nil {
			return err
		}
		if !ours {
			klog.FromContext(ctx).Info("Leaving a load balancer alone that is not known to be ours", "loadBalancer", lb.ID, "name", lb.Name, "tags", lb.Tags)
			continue
		}
		klog.FromContext(ctx).V(2).Info("Taking the Service off a load balancer that it does not use any more", "loadBalancer", lb.ID, "name", lb.Name)
		err = o.inTurn(ctx, lb, func(lb *octaviaLB) error {
			if lb.Name == w.names.lb {
				return o.deleteMade(ctx, ref, w.names, lb)
			}
			return o.leaveShared(ctx, ref, w.names, lb)
		})
		if err != nil && !cloud.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// wasOurs reports whether the Service of this cluster, and not one of the same name in a
// cluster of the same name, has put its tag on a load balancer: it, or a listener on it, has
// the cluster's tag as well, or the Service has published its address.
func (o *lbOperation) wasOurs(ctx context.Context, w *lbWishes, lb *octaviaLB, published []string) (bool, error) {
	if slices.Contains(lb.Tags, w.names.owner) {
		return true, nil
	}
	if lb.Name == w.names.lb {
		return false, nil // to be deleted; made before there were such tags
	}
	if slices.Contains(published, lb.VIPAddress) {
		return true, nil
	}
	listeners, err := readListeners(ctx, o.octavia, lb.ID)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(listeners, func(l octaviaListener) bool {
		return slices.Contains(l.Tags, w.names.lb) && slices.Contains(l.Tags, w.names.owner)
	}) {
		return true, nil
	}
	fips, err := o.attachedFIPs(ctx, lb)
	return slices.ContainsFunc(fips, func(f floatingIP) bool { return slices.Contains(published, f.Address) }), err
}
