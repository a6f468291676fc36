package service

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

// market is a cloud whose load balancers are known by their Service's UID, and each of a class.
type market struct {
	classes map[string]string
	// fails has a call fail, before or after it has done its work.
	fails func() (before, after error)
}

func (m *market) into(f *fakeCloud) {
	f.ensure = func(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
		before, after := m.fails()
		if before != nil {
			return nil, before
		}
		if was, ok := m.classes[spec.UID]; ok && was != spec.Class {
			panic(fmt.Sprintf("the load balancer of class %q is to be one of %q", was, spec.Class))
		}
		m.classes[spec.UID] = spec.Class
		if after != nil {
			return nil, after
		}
		return statusOf(spec), nil
	}
	f.remove = func(_ context.Context, spec *cloud.LoadBalancerSpec) error {
		before, after := m.fails()
		if before == nil {
			delete(m.classes, spec.UID)
		}
		if before != nil {
			return before
		}
		return after
	}
}

// play does one thing that users, the API server, the cloud or the machine may do, and says what.
func (r *random) play() string {
	s := r.w.stored("web")
	if s == nil {
		r.create()
		return "create"
	}
	alive := s.DeletionTimestamp == nil
	switch n := r.IntN(20); {
	case n < 5 && alive:
		r.w.change("web", func(s *corev1.Service) { r.reshape(s) })
		return "reshape"
	case n == 5 && alive:
		r.w.delete("web")
		return "delete"
	case n == 6 && alive && s.UID == r.seen && !r.outage && !r.w.c.claims.AreOthers(s): // with no regard to what is left, and unseen
		r.w.change("web", func(s *corev1.Service) { s.Finalizers, s.DeletionTimestamp = nil, new(metav1.Now()) })
		r.create()
		r.w.clock.Step(lastRetry) // what an outage has held back is not waited for
		r.w.sync("web")
		return "force, create, sync"
	case n <= 8 && s.UID == r.seen:
		r.restart()
		r.seen = ""
		return "restart"
	case n == 9:
		r.w.mu.Lock()
		r.w.patchErr = []error{nil, errors.New("no API server")}[r.IntN(2)]
		r.w.mu.Unlock()
		return "API server"
	case n == 10:
		r.outage = !r.outage
		return "cloud"
	case n == 11:
		r.w.clock.Step(lastRetry)
		return "time"
	}
	r.seen = s.UID
	r.w.sync("web")
	return "sync"
}

func (r *random) create() {
	r.made++
	uid := types.UID(fmt.Sprintf("web-%d", r.made))
	r.w.create(service("web", func(s *corev1.Service) { s.UID = uid; r.reshape(s) }))
}

// reshape changes type, class and annotations, as the API server lets users do it.
func (r *random) reshape(s *corev1.Service) {
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && (len(s.ResourceVersion) == 0 || r.IntN(2) == 0) {
		if r.IntN(3) == 0 {
			s.Annotations["lb.example.org/type"] = []string{"", "other-controller"}[r.IntN(2)]
			return
		}
		if len(s.ResourceVersion) > 0 {
			toClusterIP(s)
			s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
			return
		}
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.ResourceVersion) > 0 {
		return
	}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.LoadBalancerClass = []*string{nil, nil, new(ownClass), new(goldClass), new("example.org/other")}[r.IntN(5)]
}

type random struct {
	*rand.Rand
	w      *world
	cloud  *market
	outage bool
	made   int
	// seen is the Service that the controller has been shown: none that goes by force while there is no controller can be cleaned up after.
	seen types.UID
}

// restart is another process, which knows nothing.
func (r *random) restart() {
	next := newWorld(r.w.t, withTraits(ofOthers))
	if s := r.w.stored("web"); s != nil {
		next.create(s)
	}
	r.cloud.into(next.cloud)
	next.versions = r.w.versions + 1
	r.w = next
}

// settle lets all be well, and time go on until nothing happens any more.
func (r *random) settle() (calls []string) {
	r.outage = false
	r.w.patchErr = nil
	for range 12 {
		r.w.sync("web")
		r.w.clock.Step(lastRetry / 3)
		calls = r.w.cloud.take()
	}
	return slices.DeleteFunc(calls, func(c string) bool { return strings.HasSuffix(c, " verify") })
}

// Whatever happens in whatever order: in the end each Service that asks for it has its load balancer, of its class, and nothing else is
// left: neither in the cloud nor of Services that were deleted.
func TestAllIsWellInTheEnd(t *testing.T) {
	for seed := range uint64(20) {
		r := &random{Rand: rand.New(rand.NewPCG(seed, 1)), w: newWorld(t, withTraits(ofOthers))}
		r.cloud = &market{classes: map[string]string{}, fails: func() (before, after error) {
			kinds := []cloud.Kind{cloud.KindUnavailable, cloud.KindRetryAfter, cloud.KindConflict, cloud.KindStale, cloud.KindQuota}
			err := cloud.Errorf(kinds[r.IntN(len(kinds))], "not now")
			switch {
			case !r.outage:
				return nil, nil
			case r.IntN(2) == 0:
				return err, nil
			}
			return nil, err
		}}
		r.cloud.into(r.w.cloud)
		var done []string
		for range 60 {
			done = append(done, r.play())
		}
		if calls := r.settle(); len(calls) > 0 {
			t.Errorf("seed %d: it does not come to rest: %q", seed, calls)
		}
		want := map[string]string{}
		s := r.w.stored("web")
		if s != nil && s.DeletionTimestamp != nil {
			t.Errorf("seed %d: the Service stays with the finalizers %v", seed, s.Finalizers)
		}
		if s != nil {
			if class, served := r.w.c.Classes.Of(s); served && lb.Wants(s) {
				want[string(s.UID)] = class
			} else if had, ok := r.cloud.classes[string(s.UID)]; ok && r.w.c.claims.AreOthers(s) {
				want[string(s.UID)] = had // it goes with the Service
			}
		}
		if fmt.Sprint(r.cloud.classes) != fmt.Sprint(want) {
			t.Errorf("seed %d: the cloud has %v, want %v\n%v\n%+v", seed, r.cloud.classes, want, done, s)
		}
		if s == nil {
			continue
		}
		r.w.change("web", func(s *corev1.Service) { s.DeletionTimestamp = new(metav1.Now()) })
		r.settle()
		if s := r.w.stored("web"); s != nil || len(r.cloud.classes) > 0 {
			t.Errorf("seed %d: left of the Service is %v, and %v", seed, s, r.cloud.classes)
		}
	}
}
