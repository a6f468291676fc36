package openstack

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// lbWaits says how long one operation waits for Octavia, which works asynchronously.
type lbWaits struct {
	// first and most are the first and the longest pause between two looks.
	first, most time.Duration
	// total is the longest that an operation waits for its own changes, brief for work that
	// it finds under way: slow amphorae, and work that hangs in Octavia, must not keep other
	// Services waiting. Then it returns KindRetryAfter with retry.
	total, brief, retry time.Duration
	// turn is how long an operation goes on to make changes, each of which is done in time: a
	// Service with hundreds of ports must not keep others waiting either. Zero is no bound.
	turn time.Duration
}

func defaultLBWaits() lbWaits {
	return lbWaits{first: 250 * time.Millisecond, most: time.Second, total: 5 * time.Second, brief: 3 * time.Second, retry: 5 * time.Second, turn: 20 * time.Second}
}

// lbOperation is one call of an interface method: its service clients and what it has
// learned so far.
type lbOperation struct {
	lb       *LoadBalancers
	octavia  *gophercloud.ServiceClient
	neutron  *gophercloud.ServiceClient
	deadline time.Time
	subnets  map[string]netip.Prefix // of members, by ID
	warnings []string                // found on the way, for the Service's events
	readTree bool                    // the load balancer's children were read, not remembered
	newborn  bool                    // the load balancer may not have served yet
	claimed  bool                    // the load balancer had not been the Service's before
	surplus  bool                    // there are several load balancers of the Service's name
	repaired []string                // what others had changed
	shared   string                  // the floating IP of a load balancer that was not made for the Service
}

func (l *LoadBalancers) operation(ctx context.Context) (*lbOperation, error) {
	octavia, err := l.c.LoadBalancer(ctx)
	if err != nil {
		return nil, err
	}
	neutron, err := l.c.Network(ctx)
	if err != nil {
		return nil, err
	}
	return &lbOperation{lb: l, octavia: octavia, neutron: neutron, deadline: l.now().Add(l.waits.total), subnets: map[string]netip.Prefix{}}, nil
}

// named returns the project's load balancers of a name, in the order of their IDs.
func (o *lbOperation) named(ctx context.Context, name string) ([]octaviaLB, error) {
	all, err := api.ListAll[octaviaLB](ctx, o.octavia, "lbaas/loadbalancers", url.Values{"name": {name}}, "loadbalancers")
	if err != nil {
		return nil, api.WrapError("find load balancer "+name, err)
	}
	all = slices.DeleteFunc(all, func(lb octaviaLB) bool { return lb.Name != name || o.isElsewhere(&lb) })
	slices.SortFunc(all, func(a, b octaviaLB) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
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

func (o *lbOperation) get(ctx context.Context, id string) (*octaviaLB, error) {
	var answer struct {
		LoadBalancer *octaviaLB `json:"loadbalancer"`
	}
	r := loadbalancers.Get(ctx, o.octavia, id)
	if r.Err != nil {
		return nil, api.WrapError("get load balancer "+id, r.Err)
	}
	if err := r.ExtractInto(&answer); err != nil {
		return nil, fmt.Errorf("get load balancer %s: the answer is malformed: %w", id, err)
	}
	if answer.LoadBalancer == nil {
		return nil, fmt.Errorf("get load balancer %s: the answer holds none", id)
	}
	if answer.LoadBalancer.Status == "DELETED" {
		return nil, cloud.Errorf(cloud.KindNotFound, "load balancer %s is deleted", id)
	}
	return answer.LoadBalancer, nil
}

// isPending reports whether Octavia works on the load balancer, so that it takes no changes.
func (lb *octaviaLB) isPending() bool { return isPending(lb.Status) }

func isPending(status string) bool { return strings.HasPrefix(status, "PENDING_") }

// waitActive waits until Octavia has done its work on the load balancer.
func (o *lbOperation) waitActive(ctx context.Context, id string) (*octaviaLB, error) {
	var last *octaviaLB
	err := o.poll(ctx, func() (bool, error) {
		lb, err := o.get(ctx, id)
		if err != nil {
			return false, err
		}
		last = lb
		return !lb.isPending(), nil
	})
	switch {
	case err != nil:
		return nil, err
	case last.isPending():
		return nil, o.retryLater("load balancer %s is %s", id, last.Status)
	case last.Status == stateError:
		return nil, errorState(last)
	}
	return last, nil
}

// waitIdle waits briefly for work on the load balancer that was under way before us.
func (o *lbOperation) waitIdle(ctx context.Context, id string) (*octaviaLB, error) {
	defer o.hurry()()
	return o.waitActive(ctx, id)
}

// waitGoing waits briefly for a deletion that was under way before us.
func (o *lbOperation) waitGoing(ctx context.Context, id string) error {
	defer o.hurry()()
	return o.waitGone(ctx, id)
}

// hurry makes waits brief, until the function that it returns gives the operation its time back.
func (o *lbOperation) hurry() (restore func()) {
	o.deadline = o.lb.now().Add(min(o.lb.waits.brief, o.lb.waits.total))
	return func() { o.deadline = o.lb.now().Add(o.lb.waits.total) }
}

// waitGone waits until a load balancer that is being deleted is gone.
func (o *lbOperation) waitGone(ctx context.Context, id string) error {
	var last *octaviaLB
	err := o.poll(ctx, func() (done bool, err error) {
		last, err = o.get(ctx, id)
		if cloud.IsNotFound(err) {
			last = nil
			return true, nil
		}
		return err == nil && !last.isPending(), err
	})
	switch {
	case err != nil || last == nil:
		return err
	case last.isPending():
		return o.retryLater("load balancer %s is %s", id, last.Status)
	case last.Status == stateError:
		return errorState(last)
	}
	return o.retryLater("load balancer %s is %s after its deletion", id, last.Status)
}

func errorState(lb *octaviaLB) error {
	return cloud.Errorf(cloud.KindFailed, "load balancer %s (%s) is in state ERROR: ask the cloud's operator for the reason; it works again after a failover, or delete it and it is made anew",
		lb.ID, lb.Name)
}

func (o *lbOperation) retryLater(format string, args ...any) error {
	return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: o.lb.waits.retry, Err: fmt.Errorf(format, args...)}
}

// poll calls look, pausing ever longer, until it says done or fails, the operation's time
// to wait is over (nil) or ctx ends.
func (o *lbOperation) poll(ctx context.Context, look func() (done bool, err error)) error {
	pause := o.lb.waits.first
	for {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait for Octavia: %w", context.Cause(ctx))
		case <-timer.C:
		}
		if done, err := look(); done || err != nil {
			return err
		}
		if !o.lb.now().Before(o.deadline) {
			return nil
		}
		pause = min(pause*3/2, o.lb.waits.most)
	}
}

// send makes the call of one change. A refusal because Octavia is working on the load
// balancer is KindRetryAfter.
func (o *lbOperation) send(ctx context.Context, id, what string, call func() error) error {
	err := call()
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
