package service

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// run runs the world's controller over real informers until the test ends or stop is called.
func (w *world) run() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.informers.Start(ctx.Done())
	ended := make(chan error, 1)
	go func() { ended <- w.c.Run(ctx) }()
	var stopped atomic.Bool
	stop = func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				w.t.Errorf("Run: %v", err)
			}
		case <-time.After(20 * time.Second):
			w.t.Error("Run did not end")
		}
		w.informers.Shutdown()
	}
	w.t.Cleanup(stop)
	return stop
}

func realTime(change func(*Config)) func(*Config) {
	return func(c *Config) {
		c.Clock, c.NodeQuiet, c.NodeWait = clock.RealClock{}, 150*time.Millisecond, 2*time.Second
		if change != nil {
			change(c)
		}
	}
}

func (w *world) addNode(n *corev1.Node) {
	w.t.Helper()
	if _, err := w.client.CoreV1().Nodes().Create(w.t.Context(), n, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// count returns how many calls begin with prefix.
func (f *fakeCloud) count(prefix string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.calls {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	return n
}

// idle fails when the cloud is called once more, also for a change of Nodes just now.
func (w *world) idle() {
	w.t.Helper()
	before := w.cloud.count("")
	<-time.After(w.c.NodeQuiet + 500*time.Millisecond)
	if after := w.cloud.count(""); after != before {
		w.t.Errorf("%d calls to the cloud although nothing has changed: %q", after-before, w.cloud.take()[before:])
	}
}

// After a restart each load balancer is ensured once, and nothing is written.
func TestRestartEnsuresOnce(t *testing.T) {
	const services = 60
	w := newWorld(t, realTime(func(c *Config) { c.Workers = 5 }))
	for i := range services {
		w.create(service(fmt.Sprint("s", i), func(s *corev1.Service) {
			s.Finalizers = []string{lb.Finalizer}
			status := statusOf(&cloud.LoadBalancerSpec{LoadBalancerRef: cloud.LoadBalancerRef{Name: s.Name}})
			s.Annotations, s.Status.LoadBalancer.Ingress = status.Annotations, status.Ingress
		}))
	}
	w.create(service("cluster-ip", toClusterIP))
	for i := range 10 {
		w.addNode(node(fmt.Sprint("n", i), nil))
	}
	w.run()
	eventually.True(w.t, "every load balancer is ensured", func() bool { return w.cloud.count("ensure") >= services })
	w.idle()
	for i := range services {
		if n := w.cloud.count(fmt.Sprintf("ensure s%d ", i)); n != 1 {
			t.Errorf("s%d was ensured %d times", i, n)
		}
	}
	if n := w.cloud.count(""); n != services {
		t.Errorf("%d calls, want %d", n, services)
	}
	w.wantPatches(0)
}

// A burst of Nodes costs one update of each load balancer that it concerns, not one for
// each Node, and no pass over all Services for each Node.
func TestComplaintNodeQueueFullPassPerNode(t *testing.T) {
	const services, nodes = 40, 50
	w := newWorld(t, realTime(func(c *Config) { c.Workers, c.NodeQuiet, c.NodeWait = 4, time.Second, 30*time.Second }))
	w.addNode(node("first", nil))
	for i := range services {
		w.create(service(fmt.Sprint("s", i), func(s *corev1.Service) {
			if i%2 == 1 {
				s.Annotations["lb.example.org/nodes"] = "pool=none"
			}
		}))
	}
	w.run()
	eventually.True(w.t, "every load balancer is ensured", func() bool { return w.cloud.count("ensure") >= services })
	eventually.True(w.t, "the first Node has taken effect", func() bool { return value64(t, w.c.Metrics.nodeSyncLatency) > 0 })
	w.idle()
	w.cloud.take()
	passes := value64(t, w.c.Metrics.nodeSyncLatency)
	for i := range nodes {
		w.addNode(node(fmt.Sprint("n", i), nil))
	}
	eventually.True(w.t, "every load balancer is updated", func() bool { return w.cloud.count("update") >= services/2 })
	w.idle()
	if calls := w.cloud.take(); len(calls) != services/2 {
		t.Errorf("%d calls, want %d: %q", len(calls), services/2, calls)
	}
	if n := value64(t, w.c.Metrics.nodeSyncLatency) - passes; n != 1 {
		t.Errorf("%d passes over the Services for %d Nodes at once, want 1", n, nodes)
	}
}

// The last worker is never taken by a load balancer that the cloud is slow with: what is
// not done comes back, and others have their turn meanwhile.
func TestSlowLoadBalancersStarveNobody(t *testing.T) {
	w := newWorld(t, realTime(func(c *Config) { c.Workers = 1 }))
	w.cloud.ensure = func(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		if strings.HasPrefix(spec.Name, "slow") {
			return nil, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: 50 * time.Millisecond, Err: fmt.Errorf("PENDING_CREATE")}
		}
		return statusOf(spec), nil
	}
	for i := range 20 {
		w.create(service(fmt.Sprint("slow", i), nil))
	}
	for i := range 20 {
		w.create(service(fmt.Sprint("quick", i), nil))
	}
	w.run()
	eventually.True(w.t, "the quick ones are served", func() bool { return w.cloud.count("ensure quick") == 20 })
	eventually.True(w.t, "the slow ones are looked at again", func() bool { return w.cloud.count("ensure slow") > 60 })
	if n := w.cloud.count("ensure quick"); n != 20 {
		t.Errorf("%d calls for 20 quick ones", n)
	}
}

// When Run returns, no call is under way, and none begins afterwards.
func TestNoCallOutlivesRun(t *testing.T) {
	w := newWorld(t, realTime(nil))
	var open, begun atomic.Int32
	w.cloud.ensure = func(ctx context.Context, _ *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		begun.Add(1)
		open.Add(1)
		defer open.Add(-1)
		<-ctx.Done()
		<-time.After(200 * time.Millisecond) // the SDK lets go slowly
		return nil, ctx.Err()
	}
	for i := range 10 {
		w.create(service(fmt.Sprint("s", i), nil))
	}
	stop := w.run()
	eventually.True(w.t, "both workers are busy", func() bool { return open.Load() == 2 })
	stop()
	if open.Load() != 0 || begun.Load() != 2 {
		t.Errorf("%d calls under way, %d begun", open.Load(), begun.Load())
	}
}

// Users, Nodes and the cloud do everything at once; in the end all is as it should be.
func TestEverythingAtOnce(t *testing.T) {
	w := newWorld(t, realTime(func(c *Config) { c.Workers, c.NodeQuiet = 8, 5*time.Millisecond }))
	var n atomic.Int32
	w.cloud.ensure = func(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		if n.Add(1)%5 == 0 {
			return nil, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: time.Millisecond, Err: fmt.Errorf("busy")}
		}
		return statusOf(spec), nil
	}
	w.run()
	for i := range 30 {
		w.create(service(fmt.Sprint("s", i), nil))
		w.addNode(node(fmt.Sprint("n", i), nil))
		if i%3 == 0 {
			eventually.True(w.t, "it has a finalizer", func() bool { return hasFinalizer(w.stored(fmt.Sprint("s", i))) })
			w.delete(fmt.Sprint("s", i))
		}
	}
	eventually.True(w.t, "deleted Services are gone, the others have all members", func() bool {
		last := map[string]string{}
		w.cloud.set(func() {
			for _, call := range w.cloud.calls {
				last[strings.Fields(call)[1]] = call
			}
		})
		for i := range 30 {
			name := fmt.Sprint("s", i)
			s := w.stored(name)
			if i%3 == 0 {
				if s != nil {
					return false
				}
			} else if s == nil || len(s.Status.LoadBalancer.Ingress) != 2 || strings.Count(last[name], "n") < 30 {
				return false
			}
		}
		return true
	})
}

// A Service that loses type and finalizer at once is of no interest by itself, but what it was is.
func TestServiceThatStopsToBeOfInterest(t *testing.T) {
	w := newWorld(t, realTime(nil))
	w.create(service("web", nil))
	w.run()
	eventually.True(w.t, "it is served", func() bool { return len(w.stored("web").Status.LoadBalancer.Ingress) > 0 })
	w.change("web", func(s *corev1.Service) {
		toClusterIP(s)
		s.Finalizers = nil
	})
	eventually.True(w.t, "the load balancer is deleted", func() bool { return w.cloud.count("delete web uid web-1") == 1 })
}
