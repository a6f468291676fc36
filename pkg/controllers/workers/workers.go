// Package workers works off the queue of a controller.
package workers

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// Run calls do with each key of the queue, count keys at a time, until ctx ends; then it shuts
// the queue down and returns when no call is under way any more. A key for which do fails comes
// again by the queue's rate limiter, and failed is logged.
func Run(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string], count int, failed string, do func(ctx context.Context, key string) error) {
	var wg sync.WaitGroup
	for range count {
		wg.Go(func() {
			for next(ctx, queue, failed, do) {
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	wg.Wait()
}

// next works on one key. It is false when there will be none any more.
func next(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string], failed string, do func(ctx context.Context, key string) error) bool {
	key, ended := queue.Get()
	if ended {
		return false
	}
	defer queue.Done(key)
	if ctx.Err() != nil {
		return true // the queue is shut down next
	}
	if err := do(ctx, key); err != nil {
		klog.FromContext(ctx).V(2).Info(failed, "key", key, "reason", err.Error())
		queue.AddRateLimited(key)
		return true
	}
	queue.Forget(key)
	return true
}
