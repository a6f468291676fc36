package service

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

func withTraits(change func(*cloud.LoadBalancerTraits)) func(*Config) {
	return func(c *Config) {
		p := *testProvider
		change(&p.LoadBalancing)
		c.Provider, c.Classes = &p, lb.NewClasses(&p.LoadBalancing, true)
	}
}

// An existing manager's finalizers go on and off with ours: what it has put on a Service must not
// keep it for ever, also when we see the Service for the first time while it goes.
func TestFinalizersOfTheExistingManager(t *testing.T) {
	const internal, external = "gke.networking.io/l4-ilb-v1", "gke.networking.io/l4-netlb-v1"
	traits := withTraits(func(l *cloud.LoadBalancerTraits) {
		l.Finalizers = func(spec *cloud.LoadBalancerSpec) (set, all []string) {
			all = []string{internal, external}
			if spec.Settings["lb.example.org/timeout"] == "5" {
				return all[:1], all
			}
			return all[1:], all
		}
	})
	finalizers := func(w *world, want ...string) {
		t.Helper()
		if s := w.stored("web"); s == nil || !slices.Equal(s.Finalizers, want) {
			t.Errorf("finalizers are %v, want %v", s.Finalizers, want)
		}
	}
	w := newWorld(t, traits)
	w.create(service("web", func(s *corev1.Service) { s.Finalizers = []string{"example.org/other", internal} }))
	w.sync("web")
	finalizers(w, "example.org/other", lb.Finalizer, external)
	w.change("web", func(s *corev1.Service) { s.Annotations["lb.example.org/timeout"] = "5" })
	w.sync("web")
	finalizers(w, "example.org/other", lb.Finalizer, internal)
	w.change("web", toClusterIP)
	w.sync("web")
	finalizers(w, "example.org/other")
	w.wantCalls("ensure web uid web-1 []", "ensure web uid web-1 []", "delete web uid web-1")

	w = newWorld(t, traits)
	w.create(service("web", func(s *corev1.Service) { s.Finalizers = []string{external} }))
	w.delete("web")
	w.sync("web")
	w.wantCalls("delete web uid web-1")
	if s := w.stored("web"); s != nil {
		t.Errorf("the Service stays with the finalizers %v", s.Finalizers)
	}
}

// An existing manager that serves the Service by now, for a class of its own, may have its finalizers
// on it: only it lets go of them.
func TestFinalizersOfTheExistingManagerStayWhereOthersServeByNow(t *testing.T) {
	const theirs = "gke.networking.io/l4-netlb-v1"
	for _, before := range []*string{nil, new("isthmus-cloud.github.io/fake")} {
		w := newWorld(t, withTraits(func(l *cloud.LoadBalancerTraits) {
			l.Finalizers = func(*cloud.LoadBalancerSpec) (set, all []string) { return []string{theirs}, []string{theirs} }
		}))
		w.create(service("web", func(s *corev1.Service) { s.Spec.LoadBalancerClass = before }))
		w.sync("web")
		w.change("web", func(s *corev1.Service) {
			s.Spec.LoadBalancerClass = new("networking.gke.io/l4-regional-external-legacy")
		})
		w.sync("web")
		w.wantCalls("ensure web uid web-1 []", "delete web uid web-1")
		want := []string{theirs}
		if before == nil {
			want = []string{lb.Finalizer, theirs} // which the framework has for Services of any class, too
		}
		if s := w.stored("web"); !slices.Equal(s.Finalizers, want) {
			t.Errorf("a Service that had the class %s is left with the finalizers %v, want %v", ptr.Deref(before, ""), s.Finalizers, want)
		}
		w.delete("web")
		w.sync("web")
		if before == nil {
			w.wantCalls("delete web uid web-1") // nothing is left of ours, but only the cloud knows after a restart
		} else {
			w.wantCalls()
		}
		if s := w.stored("web"); s == nil || !slices.Equal(s.Finalizers, []string{theirs}) {
			t.Errorf("a deletion that others work on leaves %v, want the finalizer %s", s, theirs)
		}
	}
}

// ofOthers has Services with the annotation lb.example.org/type be another controller's.
func ofOthers(l *cloud.LoadBalancerTraits) {
	l.Elsewhere = func(s *corev1.Service) string { return s.Annotations["lb.example.org/type"] }
}

const theirFinalizer = "lb.example.org/resources"

// toOthers is what users and the other controller do to a Service that is to be its.
func toOthers(s *corev1.Service) {
	s.Annotations["lb.example.org/type"] = "other-controller"
	s.Finalizers = append(s.Finalizers, theirFinalizer)
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "theirs.example.org"}}
}

// A Service without a class that says to be another controller's is left to it. The existing manager puts the framework's finalizer on
// it all the same, which nobody else takes off: it must not keep the Service for ever. What the other controller has put there stays.
func TestServicesOfOthersAreLeftToThem(t *testing.T) {
	w := newWorld(t, withTraits(ofOthers))
	w.create(service("web", func(s *corev1.Service) {
		s.Finalizers = []string{lb.Finalizer}
		toOthers(s)
	}))
	w.sync("web")
	w.wantCalls()
	w.wantPatches(0)
	w.delete("web")
	w.cloud.set(func() {
		w.cloud.remove = func(context.Context, *cloud.LoadBalancerSpec) error { return errors.New("an outage") }
	})
	w.sync("web")
	w.wantPatches(0) // while it is not known that there is nothing
	w.cloud.set(func() { w.cloud.remove = nil })
	w.clock.Step(lastRetry)
	w.sync("web")
	w.wantCalls("delete web uid web-1", "delete web uid web-1")
	w.wantPatches(1)
	s := w.stored("web")
	if s == nil || !slices.Equal(s.Finalizers, []string{theirFinalizer}) || s.Status.LoadBalancer.Ingress[0].Hostname != "theirs.example.org" {
		t.Errorf("left of the Service is %v", s)
	}
	w.sync("web")
	w.wantCalls()
	w.wantPatches(0)
	w.create(service("own", nil))
	w.sync("own")
	w.wantCalls("ensure own uid own-1 []")
}

// A Service whose annotations make it another controller's keeps its load balancer while it lives, whether or not we were there when
// they changed: clients go on to be served until the other controller serves them, whose status and finalizer stay. What is ours goes
// with the Service.
func TestServiceBecomesAnotherControllers(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		w := settled(t, withTraits(ofOthers))
		w.change("web", toOthers)
		if restarted {
			next := newWorld(t, withTraits(ofOthers))
			next.create(w.stored("web"))
			w = next
		}
		w.sync("web")
		w.setNodes(node("n3", nil))
		if got := w.nodePass(); len(got) > 0 {
			t.Errorf("a change of Nodes makes work for %v", got)
		}
		w.sync("web")
		w.wantCalls()
		w.wantPatches(0)
		if restarted {
			w.wantEvents() // whether there is something of ours is not known
		} else {
			w.wantEvents("Warning LoadBalancerWarning By its annotations the Service is other-controller's now.")
		}
		w.delete("web")
		w.sync("web")
		w.wantCalls("delete web uid web-1")
		s := w.stored("web")
		if s == nil || !slices.Equal(s.Finalizers, []string{theirFinalizer}) || s.Status.LoadBalancer.Ingress[0].Hostname != "theirs.example.org" {
			t.Errorf("restarted %t: left of the Service is %v", restarted, s)
		}
	}
}

// One that is given back has its own address again, and one that asks for nothing any more loses all.
func TestServiceWasAnotherControllers(t *testing.T) {
	w := settled(t, withTraits(ofOthers))
	w.change("web", toOthers)
	w.sync("web")
	w.change("web", func(s *corev1.Service) { delete(s.Annotations, "lb.example.org/type") })
	w.sync("web")
	if s := w.stored("web"); s.Status.LoadBalancer.Ingress[0].IP != "192.0.2.1" {
		t.Errorf("the Service shows %v", s.Status.LoadBalancer.Ingress)
	}
	w.wantCalls()
	w.change("web", toOthers)
	w.sync("web")
	w.change("web", toClusterIP)
	w.sync("web")
	w.wantCalls("delete web uid web-1")
	if s := w.stored("web"); slices.Contains(s.Finalizers, lb.Finalizer) {
		t.Errorf("finalizers are %v", s.Finalizers)
	}

	w = settled(t, withTraits(ofOthers)) // also where somebody has taken the finalizer off
	w.change("web", toOthers)
	w.sync("web")
	w.change("web", func(s *corev1.Service) { s.Finalizers, s.DeletionTimestamp = nil, new(metav1.Now()) })
	w.sync("web")
	w.wantCalls("delete web uid web-1")
}

// Nodes that are never members make no work.
func TestNodesThatAreNotEligible(t *testing.T) {
	w := newWorld(t, withTraits(func(l *cloud.LoadBalancerTraits) {
		l.Eligible = func(n *corev1.Node) bool { return n.Labels["type"] != "virtual" }
	}))
	w.setNodes(node("n1", nil), node("n2", label("type", "virtual")))
	w.create(service("web", nil))
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [n1]")
	before, after := node("n1", nil), node("n1", label("type", "virtual"))
	if n := w.c.nodes; n.sameMember(before, after) {
		t.Error("a Node that is no member any more is taken for the same")
	}
}
