package openstack

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// lbOperation is one call of an interface method: its service clients and what it has
// learned so far.
type lbOperation struct {
	lb       *LoadBalancers
	octavia  *gophercloud.ServiceClient
	neutron  *gophercloud.ServiceClient
	ref      cloud.LoadBalancerRef
	patience time.Duration           // how long it waits for Octavia each time
	work     lbWork                  // what it is at, for the operation after it
	last     bool                    // of a deletion: what it is at is the last that the Service has
	subnets  map[string]netip.Prefix // of members, by ID
	warnings []string                // found on the way, for the Service's events
	readTree bool                    // the load balancer's children were read, not remembered
	newborn  bool                    // the load balancer may not have served yet
	repaired []string                // what others had changed
	shared   string                  // the floating IP of a load balancer that was not made for the Service
}

func (l *LoadBalancers) operation(ctx context.Context, ref cloud.LoadBalancerRef) (*lbOperation, error) {
	octavia, err := l.c.LoadBalancer(ctx)
	if err != nil {
		return nil, err
	}
	neutron, err := l.c.Network(ctx)
	if err != nil {
		return nil, err
	}
	return &lbOperation{lb: l, octavia: octavia, neutron: neutron, ref: ref, patience: l.waits.total, subnets: map[string]netip.Prefix{}}, nil
}

// ours are those that carry our cluster's tag.
func (n lbNames) ours(all []octaviaLB) []octaviaLB {
	return slices.DeleteFunc(slices.Clone(all), func(lb octaviaLB) bool { return !slices.Contains(lb.Tags, n.owner) })
}

// notOurs refuses a load balancer of the Service's name: it is another cluster's of the same
// name, or may be.
func (n lbNames) notOurs(lb *octaviaLB) error {
	if n.isForeign(lb.Tags) {
		return cloud.Errorf(cloud.KindConflict,
			"load balancer %s named %s belongs to the cluster with UID %s, and this cluster's is %s: give the clusters different names (--cluster-name), or remove its tag %q if that cluster is no more",
			lb.ID, lb.Name, ownerOf(lb.Tags), strings.TrimPrefix(n.owner, ownerTagPrefix), ownerTagPrefix+ownerOf(lb.Tags))
	}
	return cloud.Errorf(cloud.KindConflict,
		"load balancer %s named %s may be that of another cluster of the name %q: it has no tag %s…, and the Service has neither its ID nor its address. If it is this Service's, as after a creation that was cut off, set the annotation %s: %s; if not, give the clusters different names (--cluster-name)",
		lb.ID, lb.Name, n.cluster, ownerTagPrefix, annLoadBalancerID, lb.ID)
}

// isPending reports whether Octavia works on the load balancer, so that it takes no changes.
func (lb *octaviaLB) isPending() bool { return isPending(lb.Status) }

func isPending(status string) bool { return strings.HasPrefix(status, "PENDING_") }

// errorState is of KindConflict: trying again at once is of no use.
func errorState(lb *octaviaLB) error {
	return cloud.Errorf(cloud.KindFailed, "load balancer %s (%s) is in state ERROR: ask the cloud's operator for the reason; it works again after a failover, or delete it and it is made anew",
		lb.ID, lb.Name)
}

func (o *lbOperation) retryLater(format string, args ...any) error {
	return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: o.lb.waits.retry, Err: fmt.Errorf(format, args...)}
}

// send makes the call of one change. A refusal because Octavia is working on the load
// balancer is KindRetryAfter.
func (o *lbOperation) send(ctx context.Context, id, what string, call func() error) error {
	err := o.lb.changes.do(ctx, call)
	if err == nil {
		return nil
	}
	wrapped := api.WrapError(what, err)
	if gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		if lb, getErr := o.get(ctx, id); getErr == nil && lb.isPending() {
			return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: o.lb.waits.retry, Err: wrapped}
		}
	}
	return wrapped
}

// changes forgets what is remembered of a load balancer that is about to be changed.
func (o *lbOperation) changes(id string) {
	o.lb.trees.forget(id)
	o.lb.snapshots.forget(id)
	o.lb.waiter().Forget(o.ref, id)
}

// retag changes the load balancer's tags. They can only be written as a whole, so they are
// read just before, with the load balancer's turn taken, and compared afterwards.
func (o *lbOperation) retag(ctx context.Context, lb *octaviaLB, change func(tags []string) []string) (*octaviaLB, error) {
	now, err := o.get(ctx, lb.ID)
	if err != nil {
		return nil, err
	}
	tags := change(now.Tags)
	if sameTags(tags, now.Tags) {
		return now, nil
	}
	klog.FromContext(ctx).V(2).Info("Tagging load balancer", "loadBalancer", lb.ID, "tags", tags)
	o.lb.snapshots.forget(lb.ID)
	o.lb.waiter().Forget(o.ref, lb.ID)
	err = o.send(ctx, lb.ID, "tag load balancer "+lb.ID, func() error {
		return loadbalancers.Update(ctx, o.octavia, lb.ID, loadbalancers.UpdateOpts{Tags: &tags}).Err
	})
	if err != nil {
		return nil, err
	}
	after, err := o.waitActive(ctx, lb.ID)
	if err == nil && !sameTags(after.Tags, change(after.Tags)) {
		err = o.retryLater("load balancer %s was tagged by somebody else at the same time", lb.ID)
	}
	return after, err
}

func sameTags(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
