package decorate

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

// Guard sets how many Nodes may lack their instances; nodes lists every Node of the cluster
// that is this cloud's. Without it only the scope of a "not found" is checked. It must be
// called before the first question.
func (i *Instances) Guard(nodes *Peers, limits deletionguard.Limits, operator func(context.Context) deletionguard.Operator) {
	i.guard.Configure(limits, operator)
	i.nodes = nodes
}

// Held returns what the guard holds now, nil when it holds nothing.
func (i *Instances) Held() *deletionguard.Hold { return i.guard.Held() }

// confirm reads directly what a batch did not have. Its answer is the only one that anybody
// hears: KindNotFound is a direct read's own, passed the guard, and is not remembered. What the
// guard holds anyway is not read directly, save a probe from time to time: credentials that
// are not the cluster's cost no read a Node.
func (i *Instances) confirm(ctx context.Context, ref cloud.InstanceRef, absent error) (*cloud.Instance, error) {
	if err := i.notFound(ctx, ref, absent); !cloud.IsNotFound(err) && !i.guard.Probe() {
		return nil, err
	}
	instance, err := i.direct(ctx, ref)
	if cloud.IsNotFound(err) {
		err = i.notFound(ctx, ref, err)
	}
	return instance, err
}

// notFound returns err, that ref's instance does not exist, if the guard believes it, and
// otherwise why not.
func (i *Instances) notFound(ctx context.Context, ref cloud.InstanceRef, err error) error {
	claim := deletionguard.IDNotFound
	if ref.ProviderID == "" {
		claim = deletionguard.NameNotFound
	}
	scope := cloud.ScopeOf(err)
	if verdict := i.guard.Check(ctx, claim, ref, scope, i.count(ctx, scope, i.claimed(ref, scope))); !verdict.Allows() {
		return verdict.Err()
	}
	return err
}

// nameFound returns why an instance that ref led to by its name is not taken for the Node's.
func (i *Instances) nameFound(ctx context.Context, ref cloud.InstanceRef, instance *cloud.Instance) error {
	if ref.ProviderID != "" {
		return nil
	}
	scope := instance.Scope
	since := i.claimed(ref, scope)
	verdict := i.guard.Check(ctx, deletionguard.NameFound, ref, scope, i.tally().in(scope, since))
	if !verdict.Allows() { // by what was read last; others may have to be read first
		verdict = i.guard.Check(ctx, deletionguard.NameFound, ref, scope, i.count(ctx, scope, since))
	}
	if !verdict.Allows() {
		return cloud.Errorf(cloud.KindUnknown, "%s has this name, but it is in doubt: %s", instance.ProviderID, verdict.Message)
	}
	return nil
}

// confirmation is a direct read shared by all who ask while it runs.
type confirmation struct {
	done     chan struct{} // closed when the others can be read
	instance *cloud.Instance
	err      error
}

// direct reads directly, together with all who ask about ref meanwhile.
func (i *Instances) direct(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	i.mu.Lock()
	c := i.confirming[ref]
	if c == nil {
		c = &confirmation{done: make(chan struct{})}
		if !i.work.start(ctx, func(ctx context.Context) { i.reread(ctx, ref, c) }) {
			i.mu.Unlock()
			return nil, errClosed
		}
		i.confirming[ref] = c
	}
	i.mu.Unlock()
	select {
	case <-c.done:
		return c.instance, c.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// reread makes the direct read of a confirmation.
func (i *Instances) reread(ctx context.Context, ref cloud.InstanceRef, c *confirmation) {
	defer func() {
		i.mu.Lock()
		delete(i.confirming, ref)
		i.mu.Unlock()
		close(c.done)
	}()
	select {
	case i.slots <- struct{}{}:
		defer func() { <-i.slots }()
	case <-ctx.Done():
		c.err = errClosed
		return
	}
	c.instance, c.err = i.get(ctx, ref)
	if c.err == nil {
		i.call.metrics.contradiction.WithLabelValues(i.call.provider).Inc()
		klog.FromContext(ctx).V(2).Info("A batch read did not have an instance that a direct read found; the direct read counts",
			"provider", i.call.provider, "node", ref.NodeName, "providerID", c.instance.ProviderID)
	}
}
