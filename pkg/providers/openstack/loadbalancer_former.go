package openstack

import (
	"context"
	"maps"
	"net/url"
	"slices"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
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
	if !o.work.claimed && !o.work.surplus && !moved && !w.spec.Verify {
		return nil
	}
	query := url.Values{"tags": {w.names.lb}}
	if o.work.claimed || moved { // where it was before, it may have another cluster name
		query = url.Values{}
		if project := api.ProjectOf(o.octavia); project != "" {
			query.Set("project_id", project)
		}
	}
	all, err := api.ListAll[octaviaLB](ctx, o.octavia, "lbaas/loadbalancers", query, "loadbalancers")
	if err != nil {
		return api.WrapError("list load balancers that "+w.names.lb+" may have used", err)
	}
	for i := range all {
		lb := &all[i]
		if o.isElsewhere(lb) || lb.ID == status.Annotations[annLoadBalancerID] || w.names.isForeign(lb.Tags) || lb.Status == "PENDING_DELETE" {
			continue
		}
		if err := o.leaveTagged(ctx, w, lb, published); err != nil {
			return err
		}
	}
	return nil
}

// leaveTagged takes the Service off a load balancer by each of its tags, those of former cluster
// names too.
func (o *lbOperation) leaveTagged(ctx context.Context, w *lbWishes, lb *octaviaLB, published []string) error {
	for _, tag := range lb.Tags {
		if tag != w.names.lb && !w.names.isOwnTag(tag) {
			continue
		}
		if err := o.leaveOne(ctx, w, lb, tag, published); err != nil && !cloud.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// leaveOne takes the Service, by its tag, off a load balancer that it does not use any more.
func (o *lbOperation) leaveOne(ctx context.Context, w *lbWishes, lb *octaviaLB, tag string, published []string) error {
	names := w.names.tagged(tag)
	made, ok := names.madeFor(lb)
	ok = ok && made.lb == tag
	if ours, err := o.wasOurs(ctx, w, lb, tag, published); err != nil || !ours {
		if err == nil {
			klog.FromContext(ctx).Info("Leaving a load balancer alone that is not known to be ours", "loadBalancer", lb.ID, "name", lb.Name, "tags", lb.Tags)
		}
		return err
	}
	// The address that the Service has published may be kept by the load balancer that it has.
	ref := w.spec.LoadBalancerRef
	ref.CurrentIngress, ref.Settings = nil, maps.Clone(ref.Settings)
	delete(ref.Settings, annAddress)
	klog.FromContext(ctx).V(2).Info("Taking the Service off a load balancer that it does not use any more", "loadBalancer", lb.ID, "name", lb.Name)
	return o.inTurn(ctx, lb, func(lb *octaviaLB) error {
		if ok {
			return o.deleteMade(ctx, ref, made, lb)
		}
		return o.leaveShared(ctx, ref, names, lb)
	})
}

// wasOurs reports whether the Service of this cluster, and not one of the same name in another
// cluster, has put a tag on a load balancer: it was made for the Service and has the cluster's
// tag, or a listener on it has both tags, or the tag is the Service's of today and it has
// published the load balancer's address.
func (o *lbOperation) wasOurs(ctx context.Context, w *lbWishes, lb *octaviaLB, tag string, published []string) (bool, error) {
	today := tag == w.names.lb || tag == namesFor(w.spec.LoadBalancerRef).lb
	if slices.Contains(lb.Tags, w.names.owner) && (today || lb.Name == tag) {
		return true, nil
	}
	if lb.Name == tag {
		return false, nil // to be deleted; made before there were such tags
	}
	if today && slices.Contains(published, lb.VIPAddress) {
		return true, nil
	}
	listeners, err := readListeners(ctx, o.octavia, lb.ID)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(listeners, func(l octaviaListener) bool {
		return slices.Contains(l.Tags, tag) && slices.Contains(l.Tags, w.names.owner)
	}) {
		return true, nil
	}
	if !today {
		return false, nil
	}
	fips, err := o.attachedFIPs(ctx, lb)
	return slices.ContainsFunc(fips, func(f neutron.FloatingIP) bool { return slices.Contains(published, f.Address) }), err
}
