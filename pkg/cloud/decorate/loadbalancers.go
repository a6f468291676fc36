package decorate

import (
	"context"
	"fmt"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/keylock"
)

// loadBalancers decorates cloud.LoadBalancers: calls for one Service's load balancer
// follow each other, in no particular order; those for different ones run at once.
type loadBalancers struct {
	next cloud.LoadBalancers
	call *caller.Caller
	keys keylock.Locks[lbKey]
}

// The calls of load balancers.
var (
	ensureLB = caller.Operation{Ability: "loadbalancers", Name: "ensure", Mutation: true}
	updateLB = caller.Operation{Ability: "loadbalancers", Name: "update_members", Mutation: true}
	deleteLB = caller.Operation{Ability: "loadbalancers", Name: "delete", Mutation: true}
)

// lbKey tells load balancers apart. The UID does not count: a Service made anew may well
// be answered with the object that its predecessor had.
type lbKey struct{ cluster, namespace, name string }

var _ cloud.Waiting = (*loadBalancers)(nil)

// Attach implements cloud.Waiting, for a cloud that may not.
func (l *loadBalancers) Attach(ctx context.Context, again func(cloud.LoadBalancerRef)) {
	if w, ok := l.next.(cloud.Waiting); ok {
		w.Attach(ctx, again)
	}
}

// Ensure implements cloud.LoadBalancers.
func (l *loadBalancers) Ensure(ctx context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	var status *cloud.LoadBalancerStatus
	err := l.do(ctx, spec.LoadBalancerRef, ensureLB, func(ctx context.Context) (err error) {
		status, err = l.next.Ensure(ctx, spec)
		return caller.Answered("a status", status, err)
	})
	if err != nil && cloud.KindOf(err) != cloud.KindRetryAfter {
		return nil, err
	}
	return status, err
}

// UpdateMembers implements cloud.LoadBalancers.
func (l *loadBalancers) UpdateMembers(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	return l.do(ctx, spec.LoadBalancerRef, updateLB, func(ctx context.Context) error {
		return l.next.UpdateMembers(ctx, spec)
	})
}

// Delete implements cloud.LoadBalancers.
func (l *loadBalancers) Delete(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	return l.do(ctx, spec.LoadBalancerRef, deleteLB, func(ctx context.Context) error {
		return l.next.Delete(ctx, spec)
	})
}

func (l *loadBalancers) do(ctx context.Context, ref cloud.LoadBalancerRef, operation caller.Operation, f func(context.Context) error) error {
	done, _, err := l.keys.Lock(ctx, lbKey{ref.Cluster.UID + "/" + ref.Cluster.Name, ref.Namespace, ref.Name})
	if err != nil {
		return fmt.Errorf("load balancer of service %s/%s: wait for the call before to end: %w", ref.Namespace, ref.Name, err)
	}
	defer done()
	return l.call.Do(ctx, operation, f)
}
