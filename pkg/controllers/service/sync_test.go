package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

func TestLifecycle(t *testing.T) {
	w := newWorld(t, nil)
	w.setNodes(node("n1", nil))
	w.create(service("web", func(s *corev1.Service) { s.Finalizers = []string{"example.org/other"} }))
	again := w.sync("web")
	if again < 30*time.Minute || again > time.Hour {
		t.Errorf("verified after %s, want between half the period and the period", again)
	}
	w.wantCalls("ensure web uid web-1 [n1]")
	w.wantEvents("Normal EnsuringLoadBalancer Ensuring load balancer", "Normal EnsuredLoadBalancer Ensured load balancer id-of-web at 192.0.2.1, ")
	w.wantPatches(2) // the finalizer before, status and annotations after
	s := w.stored("web")
	if !slices.Equal(s.Finalizers, []string{"example.org/other", lb.Finalizer}) || len(s.Status.LoadBalancer.Ingress) != 2 || s.Annotations["lb.example.org/id"] != "id-of-web" {
		t.Errorf("the Service is %+v", s)
	}

	w.delete("web")
	if again := w.sync("web"); again != 0 {
		t.Errorf("looked at again after %s", again)
	}
	w.wantCalls("delete web uid web-1")
	w.wantEvents("Normal DeletingLoadBalancer", "Normal DeletedLoadBalancer")
	if s := w.stored("web"); !slices.Equal(s.Finalizers, []string{"example.org/other"}) {
		t.Errorf("finalizers are %v", s.Finalizers)
	}
	w.sync("web")
	w.wantCalls()
	w.change("web", func(s *corev1.Service) { s.Finalizers = nil })
	w.sync("web")
	w.wantCalls()
	if n := len(w.c.records.byKey); n != 0 {
		t.Errorf("%d Services are still remembered", n)
	}
}

// What the controller itself writes, and what the informer does not have yet, costs nothing.
func TestComplaintSecondEnsureAfterAnnotations(t *testing.T) {
	w := newWorld(t, nil)
	w.setNodes(node("n1", nil))
	w.create(service("web", nil))
	w.see("web")
	for range 3 { // the informer lags behind our writes
		w.c.sync(t.Context(), "default/web")
	}
	w.wantCalls("ensure web uid web-1 [n1]")
	w.sync("web") // our writes come back
	w.wantCalls()
	w.change("web", func(s *corev1.Service) { s.Labels = map[string]string{"team": "a"} })
	w.sync("web")
	w.wantCalls()
	w.wantPatches(2)
	w.change("web", func(s *corev1.Service) { s.Annotations["lb.example.org/timeout"] = "5" })
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [n1]")
}

func TestWhatOthersChangeOfWhatWePublish(t *testing.T) {
	w := settled(t, nil)
	wipe := func() {
		w.change("web", func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = nil
			delete(s.Annotations, "lb.example.org/address")
		})
	}
	wipe()
	w.sync("web")
	if s := w.stored("web"); len(s.Status.LoadBalancer.Ingress) != 2 || s.Annotations["lb.example.org/address"] == "" {
		t.Errorf("not published again: %+v", s)
	}
	w.wantPatches(1)
	wipe()
	if again := w.sync("web"); again != republishEvery {
		t.Errorf("published again after %s, want %s: two controllers would write as fast as they can", again, republishEvery)
	}
	w.wantPatches(0)
	w.wantCalls()

	// An annotation that is also an input counts as a change.
	w.change("web", func(s *corev1.Service) { s.Annotations["lb.example.org/id"] = "another" })
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [n1 n2]")
}

// The addresses of a dual-stack Service are the same in any order.
func TestDualStackStatusInAnotherOrder(t *testing.T) {
	w := settled(t, nil)
	w.cloud.ensure = func(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		s := statusOf(spec)
		slices.Reverse(s.Ingress)
		return s, nil
	}
	w.clock.Step(2 * time.Hour)
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [n1 n2] verify")
	w.wantPatches(0)
}

// Work that the cloud has not done yet is no failure: no Warning, and looked at again after
// exactly the time that the cloud names.
func TestComplaintRetryAfterIsNoWarning(t *testing.T) {
	for _, kind := range []cloud.Kind{cloud.KindRetryAfter, cloud.KindThrottled} {
		t.Run(kind.String(), func(t *testing.T) {
			w := newWorld(t, nil)
			w.create(service("web", nil))
			w.setNodes(node("n1", nil))
			n := 0
			w.cloud.ensure = func(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
				if n++; n <= 3 {
					return nil, &cloud.Error{Kind: kind, RetryAfter: 7 * time.Second, Err: fmt.Errorf("PENDING_CREATE since %d s", n)}
				}
				return statusOf(spec), nil
			}
			for range 3 {
				if again := w.sync("web"); again != 7*time.Second {
					t.Fatalf("looked at again after %s, want 7s", again)
				}
				w.wantCalls("ensure web uid web-1 [n1]")
				w.clock.Step(3 * time.Second)
				if again := w.sync("web"); again != 4*time.Second { // something else about the Service
					t.Fatalf("looked at again after %s, want the 4s that are left", again)
				}
				w.wantCalls()
				w.clock.Step(4 * time.Second)
			}
			w.sync("web")
			w.wantCalls("ensure web uid web-1 [n1]")
			w.wantEvents("Normal EnsuringLoadBalancer Ensuring load balancer", "Normal EnsuringLoadBalancer The cloud is not done yet: PENDING_CREATE", "Normal EnsuredLoadBalancer")
		})
	}
	t.Run("very long", func(t *testing.T) {
		w := newWorld(t, nil)
		w.create(service("web", nil))
		w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
			return nil, &cloud.Error{Kind: cloud.KindThrottled, RetryAfter: time.Hour, Err: errors.New("slow down")}
		}
		if again := w.sync("web"); again != longestAsked {
			t.Errorf("looked at again after %s, want %s", again, longestAsked)
		}
	})
	t.Run("no time named", func(t *testing.T) {
		w := newWorld(t, nil)
		w.create(service("web", nil))
		w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
			return nil, cloud.Errorf(cloud.KindThrottled, "slow down")
		}
		if again := w.sync("web"); again != firstRetry {
			t.Errorf("looked at again after %s, want %s", again, firstRetry)
		}
	})
}

// What never ends takes ever less of the workers' time; what gets on does not.
func TestEndlessWorkOfTheCloudIsLookedAtEverMoreRarely(t *testing.T) {
	w := newWorld(t, nil)
	w.create(service("web", nil))
	progress := false
	w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		err := &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: 5 * time.Second, Progress: progress, Err: errors.New("PENDING_CREATE")}
		return nil, fmt.Errorf("ensure: %w", &cloud.Error{Kind: err.Kind, RetryAfter: err.RetryAfter, Err: err})
	}
	attempts := func(period time.Duration) (n int) {
		for began := w.clock.Now(); w.clock.Since(began) < period; n++ {
			w.clock.Step(w.sync("web"))
		}
		return n
	}
	if n := attempts(30 * time.Second); n != 6 {
		t.Errorf("%d attempts in the first 30 s, want 6", n)
	}
	attempts(time.Hour)
	if n := attempts(time.Hour); n != int(time.Hour/lastRetry) {
		t.Errorf("%d attempts in the second hour, want %d", n, time.Hour/lastRetry)
	}
	progress = true
	if n := attempts(time.Hour); n != int(time.Hour/(5*time.Second)) {
		t.Errorf("%d attempts in an hour with progress, want one every 5 s", n)
	}
	progress = false
	attempts(time.Hour)
	w.change("web", func(s *corev1.Service) { s.Annotations["lb.example.org/timeout"] = "5" })
	if again := w.sync("web"); again != 5*time.Second {
		t.Errorf("another wish is looked at again after %s", again)
	}
}

// However long annotations are, texts are short.
func TestTextsAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	w.create(service("web", nil))
	long := strings.Repeat("Ω", 100_000)
	for _, err := range []error{cloud.Errorf(cloud.KindInvalid, "%s", long), errors.New(long), cloud.Errorf(cloud.KindThrottled, "%s", long)} {
		w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) { return nil, err }
		w.clock.Step(w.sync("web"))
	}
	w.cloud.ensure = func(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		status := statusOf(spec)
		status.Warnings = []string{long}
		return status, nil
	}
	w.clock.Step(w.sync("web"))
	events := w.events()
	if len(events) < 4 {
		t.Errorf("events %.200q", events)
	}
	for _, e := range events {
		if len(e) > mostText+100 {
			t.Errorf("an event of %d bytes", len(e))
		}
	}
}

// A deletion is looked at again after the time that the cloud names, too.
func TestComplaintRetryAfterOfDeletion(t *testing.T) {
	w := settled(t, nil)
	w.cloud.remove = func(context.Context, *cloud.LoadBalancerSpec) error {
		return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: 9 * time.Second, Err: errors.New("PENDING_DELETE")}
	}
	w.delete("web")
	if again := w.sync("web"); again != 9*time.Second {
		t.Fatalf("looked at again after %s, want 9s", again)
	}
	w.wantEvents("Normal DeletingLoadBalancer", "Normal DeletingLoadBalancer The cloud is not done yet")
	if s := w.stored("web"); !hasFinalizer(s) {
		t.Fatal("the finalizer is gone before the load balancer")
	}
	w.cloud.remove = nil
	w.clock.Step(9 * time.Second)
	w.sync("web")
	w.wantCalls("delete web uid web-1", "delete web uid web-1")
	if w.stored("web") != nil {
		t.Error("the Service is still there")
	}
}

// Whether or not the cloud has a load balancer of that name, Delete is called before the
// finalizer goes: it removes what was made beside the load balancer, too.
func TestComplaintGetPreCheckLeak(t *testing.T) {
	w := newWorld(t, nil)
	w.create(service("web", func(s *corev1.Service) { s.Finalizers = []string{lb.Finalizer} }))
	w.delete("web")
	w.cloud.remove = func(context.Context, *cloud.LoadBalancerSpec) error {
		if s := w.stored("web"); s == nil || !hasFinalizer(s) {
			t.Error("the finalizer went before Delete")
		}
		return cloud.Errorf(cloud.KindNotFound, "no such load balancer")
	}
	w.sync("web")
	w.wantCalls("delete web uid web-1")
	if w.stored("web") != nil {
		t.Error("the Service is still there")
	}
}

func TestWishThatCannotBeFulfilled(t *testing.T) {
	for _, kind := range []cloud.Kind{cloud.KindInvalid, cloud.KindUnsupported} {
		t.Run(kind.String(), func(t *testing.T) {
			w := newWorld(t, nil)
			w.setNodes(node("n1", nil))
			w.create(service("web", nil))
			w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
				return nil, cloud.Errorf(kind, "no such flavor")
			}
			again := w.sync("web")
			if again < 30*time.Minute || again > time.Hour {
				t.Errorf("tried again after %s", again)
			}
			w.wantCalls("ensure web uid web-1 [n1]")
			w.wantEvents("Normal EnsuringLoadBalancer", "Warning SyncLoadBalancerFailed Error syncing load balancer: failed to ensure load balancer: no such flavor")
			w.sync("web")
			w.wantCalls()
			// Nodes are part of the wish, but no news to the user.
			w.setNodes(node("n1", nil), node("n2", nil))
			w.sync("web")
			w.wantCalls("ensure web uid web-1 [n1 n2]")
			w.wantEvents()
			w.change("web", func(s *corev1.Service) { s.Annotations["lb.example.org/timeout"] = "5" })
			w.sync("web")
			w.wantCalls("ensure web uid web-1 [n1 n2]")
			w.wantEvents("Normal EnsuringLoadBalancer", "Warning SyncLoadBalancerFailed")
			w.clock.Step(again)
			w.clock.Step(time.Hour)
			w.sync("web")
			w.wantCalls("ensure web uid web-1 [n1 n2]")
		})
	}
	t.Run("annotations", func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.SyncPeriod = 0 })
		w.create(service("web", func(s *corev1.Service) {
			s.Annotations["lb.example.org/timeout"] = "5000"
			s.Annotations["lb.example.org/timeuot"] = "5"
		}))
		for range 3 {
			if again := w.sync("web"); again < hopelessRetry/2 {
				t.Errorf("tried again after %s", again)
			}
		}
		w.wantCalls()
		w.wantPatches(0)
		w.wantEvents("Warning LoadBalancerWarning annotation lb.example.org/timeuot", "Warning SyncLoadBalancerFailed Error syncing load balancer: plan load balancer of Service default/web: metadata.annotations[lb.example.org/timeout]: Unsupported value")
	})
}

// A Service made anew is told of its annotations, too, although its predecessor was.
func TestInvalidServiceMadeAnew(t *testing.T) {
	w := newWorld(t, nil)
	long := func(s *corev1.Service) { s.Annotations["lb.example.org/timeout"] = "5000" }
	w.create(service("web", long))
	w.sync("web")
	w.wantEvents("Warning SyncLoadBalancerFailed")
	w.change("web", func(s *corev1.Service) { s.UID = "web-2" })
	w.sync("web")
	w.wantEvents("Warning SyncLoadBalancerFailed")
}

// A wish that cannot be fulfilled, and then a cloud that fails: Nodes help that nothing.
func TestFailureAfterAHopelessWish(t *testing.T) {
	w := newWorld(t, nil)
	w.setNodes(node("n1", nil))
	w.create(service("web", nil))
	err := cloud.Errorf(cloud.KindInvalid, "no such flavor")
	w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) { return nil, err }
	w.sync("web")
	w.clock.Step(time.Hour)
	err = errors.New("connection refused")
	w.sync("web")
	w.cloud.take()
	w.setNodes(node("n1", nil), node("n2", nil))
	w.sync("web")
	w.wantCalls()
}

func TestFailuresBackOff(t *testing.T) {
	w := newWorld(t, nil)
	w.setNodes(node("n1", nil))
	w.create(service("web", nil))
	n := 0
	w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		n++
		return nil, fmt.Errorf("connection refused (gave up after 3 attempts, %d.%ds)", n, 7*n)
	}
	var before time.Duration
	for i := range 12 {
		again := w.sync("web")
		ceiling := min(firstRetry<<min(i, 10), lastRetry)
		if again > ceiling || again < ceiling*4/5 || again < firstRetry {
			t.Errorf("wait %d is %s, want nearly %s", i, again, ceiling)
		}
		if again < before*4/5 {
			t.Errorf("wait %d is %s after %s", i, again, before)
		}
		before = again
		w.setNodes(node("n1", nil), node(fmt.Sprint("n", i+2), nil)) // which helps nothing
		w.sync("web")
		if calls := w.cloud.take(); len(calls) != 1 {
			t.Errorf("calls %v, want one", calls)
		}
		w.clock.Step(again)
	}
	warnings := 0
	for _, e := range w.events() {
		if strings.HasPrefix(e, "Warning SyncLoadBalancerFailed") {
			warnings++
		}
	}
	if warnings < 1 || warnings > 3 { // 12 attempts took half an hour
		t.Errorf("%d warnings of the same text in half an hour", warnings)
	}
	w.change("web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
	w.sync("web")
	if calls := w.cloud.take(); len(calls) != 1 {
		t.Errorf("a change is not tried at once: %v", calls)
	}
}

func TestServiceIsGoneOrAnother(t *testing.T) {
	t.Run("gone without a finalizer", func(t *testing.T) {
		w := settled(t, nil)
		w.change("web", func(s *corev1.Service) { s.Finalizers = nil })
		w.delete("web")
		w.sync("web")
		w.wantCalls("delete web uid web-1")
		w.wantEvents("Normal DeletingLoadBalancer", "Normal DeletedLoadBalancer")
		w.sync("web")
		w.wantCalls()
	})
	t.Run("made anew under its name", func(t *testing.T) {
		w := settled(t, nil)
		w.create(service("web", func(s *corev1.Service) { s.UID = "web-2" }))
		fails := true
		w.cloud.remove = func(context.Context, *cloud.LoadBalancerSpec) error {
			if fails {
				return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: time.Second, Err: errors.New("busy")}
			}
			return nil
		}
		if again := w.sync("web"); again != time.Second {
			t.Errorf("looked at again after %s", again)
		}
		fails = false
		w.clock.Step(time.Second)
		w.sync("web")
		w.wantCalls("delete web uid web-1", "delete web uid web-1", "ensure web uid web-2 [n1 n2]")
		if s := w.stored("web"); !hasFinalizer(s) || len(s.Status.LoadBalancer.Ingress) == 0 {
			t.Errorf("the new Service is %+v", s)
		}
	})
	t.Run("made anew while its predecessor is being ensured", func(t *testing.T) {
		w := newWorld(t, nil)
		w.create(service("web", nil))
		w.cloud.ensure = func(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
			w.create(service("web", func(s *corev1.Service) { s.UID = "web-2" }))
			w.cloud.ensure = nil
			return statusOf(spec), nil
		}
		w.sync("web")
		if s := w.stored("web"); len(s.Status.LoadBalancer.Ingress) > 0 {
			t.Fatal("the new Service got the address of the old one's load balancer")
		}
		w.sync("web")
		w.wantCalls("ensure web uid web-1 []", "delete web uid web-1", "ensure web uid web-2 []")
	})
	t.Run("type changed", func(t *testing.T) {
		w := settled(t, nil)
		w.change("web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		w.sync("web")
		w.wantCalls("delete web uid web-1")
		if s := w.stored("web"); len(s.Finalizers) > 0 || len(s.Status.LoadBalancer.Ingress) > 0 {
			t.Errorf("the Service is %+v", s)
		}
		w.c.sync(t.Context(), "default/web") // the informer lags behind
		w.wantCalls()
		w.change("web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })
		w.sync("web")
		w.wantCalls("ensure web uid web-1 [n1 n2]")
	})
	t.Run("deleted before anything was made", func(t *testing.T) {
		w := newWorld(t, nil)
		w.create(service("web", func(s *corev1.Service) { s.Finalizers = []string{"example.org/other"} }))
		w.delete("web")
		w.sync("web")
		w.wantCalls()
	})
	t.Run("gone before its finalizer", func(t *testing.T) {
		w := newWorld(t, nil)
		w.create(service("web", nil))
		w.see("web")
		w.delete("web")
		w.c.sync(t.Context(), "default/web")
		w.wantCalls()
	})
}

func TestFailingWrites(t *testing.T) {
	w := newWorld(t, nil)
	w.setNodes(node("n1", nil))
	w.create(service("web", nil))
	w.patchErr = errors.New("no API server")
	again := w.sync("web")
	w.wantCalls() // nothing is made that a finalizer does not hold
	w.wantEvents("Normal EnsuringLoadBalancer", "Warning SyncLoadBalancerFailed Error syncing load balancer: failed to add load balancer cleanup finalizer")
	w.patchErr = nil
	w.clock.Step(again)
	w.cloud.ensure = func(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		w.patchErr = errors.New("no API server")
		return statusOf(spec), nil
	}
	again = w.sync("web")
	w.wantEvents("Warning SyncLoadBalancerFailed Error syncing load balancer: failed to update load balancer status")
	w.patchErr, w.cloud.ensure = nil, nil
	w.clock.Step(again)
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [n1]", "ensure web uid web-1 [n1]")
	w.patchErr = errors.New("no API server")
	w.delete("web")
	again = w.sync("web")
	w.patchErr = nil
	w.clock.Step(again)
	w.sync("web")
	w.wantCalls("delete web uid web-1", "delete web uid web-1")
	if w.stored("web") != nil {
		t.Error("the Service is still there")
	}
}

// The end of the term is no failure of the load balancer.
func TestEndOfTheTermIsSilent(t *testing.T) {
	w := newWorld(t, nil)
	w.create(service("web", nil))
	w.see("web")
	ctx, cancel := context.WithCancel(t.Context())
	w.cloud.ensure = func(ctx context.Context, _ *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		cancel()
		return nil, ctx.Err()
	}
	w.c.sync(ctx, "default/web")
	w.wantEvents("Normal EnsuringLoadBalancer", "Warning UnAvailableLoadBalancer")
}

// Controllers of one process share their metrics, which count by operation and result.
func TestMetrics(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(r)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = NewMetrics(r); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) { c.Metrics = m })
	w.create(service("web", nil))
	w.cloud.ensure = func(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		return nil, cloud.Errorf(cloud.KindRetryAfter, "busy")
	}
	w.sync("web")
	w.clock.Step(time.Minute)
	w.cloud.ensure = nil
	w.sync("web")
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "service_controller_loadbalancer_sync_total" {
			continue
		}
		for _, x := range f.GetMetric() {
			got[x.GetLabel()[0].GetValue()+" "+x.GetLabel()[1].GetValue()] = x.GetCounter().GetValue()
		}
	}
	if got["ensure done"] != 1 || got["ensure waiting"] != 1 || got["delete failed"] != 0 {
		t.Errorf("counted %v", got)
	}
}
