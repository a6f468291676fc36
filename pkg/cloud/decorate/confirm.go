package decorate

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// confirmation is a direct read shared by all who ask while it runs.
type confirmation struct {
	done     chan struct{} // closed when the others can be read
	instance *cloud.Instance
	err      error
}

// confirm decides about what a batch did not have; scope is where that was. Its answer is
// the only one that anybody hears: KindNotFound is a direct read's own, passed the brake,
// and is not remembered. What the brake holds back anyway is not read directly, save a probe
// from time to time: credentials that are not the cluster's cost no read a Node.
func (i *Instances) confirm(ctx context.Context, ref cloud.InstanceRef, scope string) (*cloud.Instance, error) {
	c := i.census(ctx, scope)
	if err := i.brake.check(ctx, ref, scope, c); err != nil && !i.brake.probe() {
		return nil, err
	}
	instance, err := i.direct(ctx, ref)
	if cloud.IsNotFound(err) {
		if held := i.brake.check(ctx, ref, cloud.ScopeOf(err), c); held != nil {
			return nil, held
		}
	}
	return instance, err
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
