package service

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

func withClass(class string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }
}

// toClusterIP is a change of type; the API server wipes the class then.
func toClusterIP(s *corev1.Service) {
	s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil
}

const (
	ownClass  = "isthmus-cloud.github.io/fake"
	goldClass = "isthmus-cloud.github.io/fake-gold"
)

// spec.loadBalancerClass decides who serves a Service: ours are served, all others are never
// touched.
func TestComplaintLoadBalancerClassIgnored(t *testing.T) {
	tests := []struct {
		name    string
		class   string // "" for none
		without bool   // Services without a class are not served
		want    string // the call; "" for a Service that is not ours
	}{
		{"none", "", false, "ensure web uid web-1 []"},
		{"none, which others serve", "", true, ""},
		{"the provider's own", ownClass, true, "ensure web uid web-1 []"},
		{"a section of the configuration", goldClass, false, "ensure web uid web-1 [] class gold"},
		{"another provider's", "isthmus-cloud.github.io/other", false, ""},
		{"somebody else's", "example.org/fake-gold", false, ""},
		{"no section of the configuration", ownClass + "-bronze", false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.Classes.Default = !tt.without })
			change := func(s *corev1.Service) { s.Finalizers = []string{finalizer} }
			if tt.class != "" {
				change = func(s *corev1.Service) { withClass(tt.class)(s); s.Finalizers = []string{finalizer} }
			}
			w.create(service("web", change))
			w.sync("web")
			if tt.want != "" {
				w.wantCalls(tt.want)
				w.delete("web")
				w.sync("web")
				w.wantCalls("delete web uid web-1")
				return
			}
			if got := len(w.events()); got > 0 != (tt.class == ownClass+"-bronze") {
				t.Errorf("%d events", got)
			}
			w.change("web", toClusterIP)
			w.sync("web")
			w.change("web", func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} })
			w.sync("web")
			w.change("web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer; withClass("example.org/x")(s) })
			w.sync("web")
			w.delete("web")
			w.sync("web")
			w.wantCalls()
			w.wantPatches(0)
			if s := w.stored("web"); s == nil || !hasFinalizer(s) {
				t.Error("the other controller's finalizer is gone")
			}
		})
	}
}

// The class is wiped with the type; the mark tells, also after a restart, who cleans up.
func TestTypeOfAServiceWithAClassChanges(t *testing.T) {
	restart := func(w *world) *world {
		next := newWorld(w.t, func(c *Config) { c.Classes.Default = false })
		next.create(w.stored("web"))
		return next
	}
	w := newWorld(t, func(c *Config) { c.Classes.Default = false })
	w.create(service("web", withClass(goldClass)))
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [] class gold")
	if s := w.stored("web"); s.Annotations[classAnnotation] != goldClass {
		t.Fatalf("annotations are %v", s.Annotations)
	}

	t.Run("to another type", func(t *testing.T) {
		w := restart(w)
		w.change("web", toClusterIP)
		w.sync("web")
		w.wantCalls("delete web uid web-1")
		if s := w.stored("web"); hasFinalizer(s) || s.Annotations[classAnnotation] != "" {
			t.Errorf("the Service is still ours: %+v", s.ObjectMeta)
		}
	})
	t.Run("and back with another class", func(t *testing.T) {
		w := restart(w)
		w.change("web", withClass(ownClass))
		w.sync("web")
		w.sync("web")
		w.wantCalls("delete web uid web-1", "ensure web uid web-1 []")
		if s := w.stored("web"); !hasFinalizer(s) || s.Annotations[classAnnotation] != ownClass {
			t.Errorf("the Service is %+v", s.ObjectMeta)
		}
	})
	t.Run("and back with another controller's class", func(t *testing.T) {
		w := restart(w)
		w.change("web", withClass("example.org/other"))
		w.sync("web")
		w.sync("web")
		w.wantCalls("delete web uid web-1")
		if s := w.stored("web"); !hasFinalizer(s) || s.Annotations[classAnnotation] != "" {
			t.Errorf("finalizer and mark are not as the other controller needs them: %+v", s.ObjectMeta)
		}
	})
	t.Run("and back without a class", func(t *testing.T) {
		w := newWorld(t, nil)
		w.create(service("web", withClass(goldClass)))
		w.sync("web")
		w.change("web", func(s *corev1.Service) { s.Spec.LoadBalancerClass = nil })
		w.sync("web")
		w.sync("web")
		w.wantCalls("ensure web uid web-1 [] class gold", "delete web uid web-1", "ensure web uid web-1 []")
		if s := w.stored("web"); s.Annotations[classAnnotation] != "" {
			t.Errorf("annotations are %v", s.Annotations)
		}
	})
	t.Run("from no class to one of another controller, seen by us", func(t *testing.T) {
		w := settled(t, nil)
		w.change("web", withClass("example.org/other"))
		w.sync("web")
		w.sync("web")
		w.wantCalls("delete web uid web-1")
	})
}

func TestServicesWithoutAClassAreOthersWhenTurnedOff(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Classes = lb.Classes{Provider: "fake"} })
	w.create(service("web", func(s *corev1.Service) { toClusterIP(s); s.Finalizers = []string{finalizer} }))
	w.sync("web")
	w.wantCalls()
	w.wantPatches(0)
}
