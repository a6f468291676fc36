package service

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

// What a Controller is told counts, and what it is not told has a default.
func TestConfig(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.NodeQuiet, c.NodeWait = 2*time.Second, 3*time.Second })
	if w.c.NodeQuiet != 2*time.Second || w.c.NodeWait != 3*time.Second {
		t.Errorf("it waits for %s, at most %s", w.c.NodeQuiet, w.c.NodeWait)
	}
	w = newWorld(t, nil)
	if w.c.NodeQuiet != time.Second || w.c.NodeWait != 5*time.Second || w.c.Metrics == nil {
		t.Errorf("by default it waits for %s, at most %s", w.c.NodeQuiet, w.c.NodeWait)
	}
	for want, change := range map[string]func(*Config){
		"0 workers":                   func(c *Config) { c.Workers = 0 },
		"sync period -1s is negative": func(c *Config) { c.SyncPeriod = -time.Second },
	} {
		config := w.c.Config
		change(&config)
		if c, err := New(config); c != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A Service whose deletion the informer has missed is looked at all the same.
func TestDeletionThatWasMissedIsLookedAt(t *testing.T) {
	w := newWorld(t, nil)
	ours, others := service("web", nil), service("other", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	for _, tt := range []struct {
		obj  any
		want bool
	}{
		{ours, true}, {cache.DeletedFinalStateUnknown{Key: "default/web", Obj: ours}, true},
		{others, false}, {cache.DeletedFinalStateUnknown{Key: "default/other", Obj: others}, false}, {"text", false},
	} {
		if got := w.c.enqueue(tt.obj); got != tt.want {
			t.Errorf("%T: looked at %t, want %t", tt.obj, got, tt.want)
		}
	}
	if key, _ := w.c.queue.Get(); key != "default/web" || w.c.queue.Len() != 0 {
		t.Errorf("queued is %q, and %d more", key, w.c.queue.Len())
	}
}

// A Service of others' is forgotten when it asks for no load balancer any more. The framework's finalizer goes then: nobody else takes it
// off a Service without a class.
func TestServiceOfOthersIsForgottenWhenItAsksForNothing(t *testing.T) {
	for _, marked := range []bool{true, false} {
		w := newWorld(t, nil)
		w.setNodes(node("n1", nil))
		w.create(service("web", func(s *corev1.Service) {
			withClass("example.org/theirs")(s)
			if marked {
				s.Finalizers = []string{lb.Finalizer}
			}
		}))
		w.sync("web")
		w.wantCalls()
		w.change("web", toClusterIP)
		w.sync("web")
		w.sync("web")
		if marked {
			w.wantCalls("delete web uid web-1")
		} else {
			w.wantCalls()
		}
		if s := w.stored("web"); len(s.Finalizers) > 0 || len(w.c.records.byKey) > 0 {
			t.Errorf("with the finalizer %t: finalizers are %v, remembered are %d Services", marked, s.Finalizers, len(w.c.records.byKey))
		}
	}
}
