package service

import (
	"context"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// waitingCloud is a fakeCloud that tells of the end of work.
type waitingCloud struct {
	*fakeCloud
	again chan func(cloud.LoadBalancerRef)
}

func (f *waitingCloud) Attach(_ context.Context, again func(cloud.LoadBalancerRef)) { f.again <- again }

func newWaitingWorld(t *testing.T) (*world, *waitingCloud) {
	told := &waitingCloud{again: make(chan func(cloud.LoadBalancerRef), 1)}
	w := newWorld(t, func(c *Config) {
		told.fakeCloud = c.LoadBalancers.(*fakeCloud)
		c.LoadBalancers = told
	})
	w.setNodes(node("n1", nil))
	return w, told
}

// TestServiceIsQueuedAtOnceWhenItsWorkHasEnded: before the time that the cloud has asked for.
func TestServiceIsQueuedAtOnceWhenItsWorkHasEnded(t *testing.T) {
	w, _ := newWaitingWorld(t)
	w.create(service("web", nil))
	later := func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		return nil, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: 5 * time.Second, Err: context.DeadlineExceeded}
	}
	w.cloud.set(func() { w.cloud.ensure = later })
	if again := w.sync("web"); again != 5*time.Second {
		t.Errorf("again after %s", again)
	}
	w.wantEvents("Normal EnsuringLoadBalancer Ensuring load balancer") // and none of a wait that is short
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [n1]")

	w.cloud.set(func() { w.cloud.ensure = nil })
	w.c.again(cloud.LoadBalancerRef{Namespace: "default", Name: "web", UID: "web-1"})
	if key, _ := w.c.queue.Get(); key != "default/web" {
		t.Errorf("queued is %q", key)
	}
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [n1]")
	w.wantEvents("Normal EnsuredLoadBalancer")

	w.c.again(cloud.LoadBalancerRef{Namespace: "default", Name: "unknown", UID: "u"})
	if n := w.c.queue.Len(); n != 0 {
		t.Errorf("%d Services are queued, and one is not known", n)
	}
}

// TestEndOfWorkLiftsNoBackoff: what fails is tried when its time has come.
func TestEndOfWorkLiftsNoBackoff(t *testing.T) {
	w, _ := newWaitingWorld(t)
	w.create(service("web", nil))
	w.cloud.set(func() {
		w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
			return nil, cloud.Errorf(cloud.KindUnknown, "no")
		}
	})
	w.sync("web")
	w.c.again(cloud.LoadBalancerRef{Namespace: "default", Name: "web", UID: "web-1"})
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [n1]")
}

// TestLongWaitIsTold: once it has lasted.
func TestLongWaitIsTold(t *testing.T) {
	w, _ := newWaitingWorld(t)
	w.create(service("web", nil))
	w.cloud.set(func() {
		w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
			return nil, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: 5 * time.Second, Err: context.DeadlineExceeded}
		}
	})
	w.sync("web")
	w.wantEvents("Normal EnsuringLoadBalancer Ensuring load balancer")
	w.clock.Step(5 * time.Second)
	w.sync("web")
	w.wantEvents("Normal EnsuringLoadBalancer The cloud is not done yet")
}

func TestControllerAttachesItselfToTheCloud(t *testing.T) {
	w, told := newWaitingWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	w.informers.Start(ctx.Done())
	go func() { done <- w.c.Run(ctx) }()
	if again := <-told.again; again == nil {
		t.Error("it attaches nothing")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.informers.Shutdown()
}
