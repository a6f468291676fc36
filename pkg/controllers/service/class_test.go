package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
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

// spec.loadBalancerClass decides who serves a Service: ours are served, all others are not touched
// while they live. When one goes that has the framework's finalizer, what is marked as ours goes, and
// the finalizer, as the framework takes it off Services of any class.
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
			change := func(s *corev1.Service) {
				s.Finalizers = []string{lb.Finalizer} // others use it, too
				if tt.class != "" {
					withClass(tt.class)(s)
				}
			}
			w.create(service("web", change))
			w.sync("web")
			if tt.want != "" {
				calls := w.cloud.take()
				if calls[len(calls)-1] != tt.want {
					t.Errorf("calls %q, want %q", calls, tt.want)
				}
				w.delete("web")
				w.sync("web")
				w.wantCalls("delete web uid web-1" + strings.TrimPrefix(tt.want, "ensure web uid web-1 []"))
				if s := w.stored("web"); s != nil && (tt.class == "" || !slices.Equal(s.Finalizers, []string{lb.Finalizer})) {
					t.Errorf("the Service is still there with the finalizers %v", s.Finalizers)
				}
				return
			}
			if got := len(w.events()); got > 0 != (tt.class == ownClass+"-bronze") {
				t.Errorf("%d events", got)
			}
			w.change("web", func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} })
			w.sync("web")
			w.wantCalls()
			w.wantPatches(0)
			w.delete("web")
			w.sync("web")
			if tt.without {
				w.wantCalls()
				w.wantPatches(0)
			} else {
				w.wantCalls("delete web uid web-1")
			}
			if s := w.stored("web"); (s != nil) != tt.without {
				t.Errorf("left of the Service is %v", s)
			}
		})
	}
}

// The class is wiped with the type; the finalizer tells, also after a restart, who cleans up.
func TestTypeOfAServiceWithAClassChanges(t *testing.T) {
	restart := func(w *world) *world {
		next := newWorld(w.t, func(c *Config) { c.Classes.Default = false })
		next.create(w.stored("web"))
		return next
	}
	wantFinalizers := func(w *world, want ...string) {
		w.t.Helper()
		if s := w.stored("web"); !slices.Equal(s.Finalizers, want) {
			w.t.Errorf("finalizers are %v, want %v", s.Finalizers, want)
		}
	}
	w := newWorld(t, func(c *Config) { c.Classes.Default = false })
	w.create(service("web", withClass(goldClass)))
	w.sync("web")
	w.wantCalls("ensure web uid web-1 [] class gold")
	wantFinalizers(w, goldClass) // the framework's controllers leave this one alone

	t.Run("to another type", func(t *testing.T) {
		w := restart(w)
		w.change("web", toClusterIP)
		w.sync("web")
		w.wantCalls("delete web uid web-1 class gold")
		wantFinalizers(w)
	})
	t.Run("and back with another class", func(t *testing.T) {
		w := restart(w)
		w.change("web", withClass(ownClass))
		w.sync("web")
		w.sync("web")
		w.wantCalls("delete web uid web-1 class gold", "ensure web uid web-1 []")
		wantFinalizers(w, ownClass)
	})
	t.Run("and back with another controller's class", func(t *testing.T) {
		w := restart(w)
		w.change("web", func(s *corev1.Service) {
			withClass("example.org/other")(s)
			s.Finalizers = append(s.Finalizers, lb.Finalizer)
		})
		w.sync("web")
		w.sync("web")
		w.wantCalls("delete web uid web-1 class gold")
		wantFinalizers(w, lb.Finalizer)
	})
	t.Run("and back without a class", func(t *testing.T) {
		w := newWorld(t, nil)
		w.create(service("web", withClass(goldClass)))
		w.sync("web")
		w.change("web", func(s *corev1.Service) { s.Spec.LoadBalancerClass = nil })
		w.sync("web")
		w.sync("web")
		w.wantCalls("ensure web uid web-1 [] class gold", "delete web uid web-1 class gold", "ensure web uid web-1 []")
		wantFinalizers(w, lb.Finalizer)
	})
	t.Run("and back without a class, before the load balancer is gone", func(t *testing.T) {
		w := newWorld(t, nil)
		w.create(service("web", withClass(goldClass)))
		w.sync("web")
		w.cloud.set(func() {
			w.cloud.remove = func(context.Context, *cloud.LoadBalancerSpec) error { return errors.New("an outage") }
		})
		w.change("web", toClusterIP)
		w.sync("web")
		w.change("web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })
		w.sync("web")
		w.wantCalls("ensure web uid web-1 [] class gold", "delete web uid web-1 class gold")
		w.cloud.set(func() { w.cloud.remove = nil })
		w.clock.Step(lastRetry)
		w.sync("web")
		w.wantCalls("delete web uid web-1 class gold", "ensure web uid web-1 []")
		wantFinalizers(w, lb.Finalizer)
	})
	t.Run("not, but somebody has put the framework's finalizer on it", func(t *testing.T) {
		w := newWorld(t, nil)
		w.create(service("web", func(s *corev1.Service) { withClass(goldClass)(s); s.Finalizers = []string{lb.Finalizer, goldClass} }))
		w.sync("web")
		w.wantCalls("ensure web uid web-1 [] class gold")
		wantFinalizers(w, goldClass)
	})
	t.Run("and back without a class, which others serve", func(t *testing.T) {
		w := restart(w)
		w.change("web", func(s *corev1.Service) {
			s.Spec.LoadBalancerClass = nil
			s.Finalizers = append(s.Finalizers, lb.Finalizer)
		})
		w.sync("web")
		w.sync("web")
		w.wantCalls("delete web uid web-1 class gold")
		wantFinalizers(w, lb.Finalizer)
	})
	t.Run("from no class to one of ours, after a restart", func(t *testing.T) {
		w := newWorld(t, nil)
		w.create(service("web", func(s *corev1.Service) { withClass(goldClass)(s); s.Finalizers = []string{lb.Finalizer} }))
		w.sync("web")
		w.sync("web")
		w.wantCalls("delete web uid web-1", "ensure web uid web-1 [] class gold")
		wantFinalizers(w, goldClass)
	})
	t.Run("from no class to one of another controller, seen by us", func(t *testing.T) {
		w := settled(t, nil)
		w.change("web", withClass("example.org/other"))
		w.sync("web")
		w.sync("web")
		w.wantCalls("delete web uid web-1")
		wantFinalizers(w, lb.Finalizer)
	})
}

// A class that was taken out of the configuration keeps its Services' finalizers; that is said.
func TestClassIsConfiguredNoLonger(t *testing.T) {
	for name, change := range map[string]func(*corev1.Service){
		"deleted":      func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
		"another type": toClusterIP,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			const bronze = ownClass + "-bronze"
			w.create(service("web", func(s *corev1.Service) {
				withClass(bronze)(s)
				s.Finalizers = []string{bronze}
				change(s)
			}))
			w.sync("web")
			w.sync("web")
			w.wantEvents("Warning LoadBalancerWarning The load balancer is not deleted: the finalizer \"" + bronze + "\"")
			w.wantCalls()
			w.wantPatches(0)
		})
	}
}

func TestServicesWithoutAClassAreOthersWhenTurnedOff(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Classes = lb.NewClasses(&cloud.LoadBalancerTraits{Classes: cloud.OwnClasses("fake")}, false)
	})
	w.create(service("web", func(s *corev1.Service) { toClusterIP(s); s.Finalizers = []string{lb.Finalizer} }))
	w.sync("web")
	w.wantCalls()
	w.wantPatches(0)
}
