package service

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Nothing is remembered of Services that are gone, and of those that never were ours.
func TestRecordsAreEmptyWhenAllServicesAreGone(t *testing.T) {
	const services = 200
	w := newWorld(t, nil)
	w.setNodes(node("n1", nil))
	indexer := w.informers.Core().V1().Services().Informer().GetIndexer()
	for i := range services {
		s := service(fmt.Sprint("s", i), func(s *corev1.Service) {
			s.Annotations["lb.example.org/nodes"] = fmt.Sprintf("pool!=p%d", i)
			if i%10 == 1 {
				class := "example.org/theirs"
				s.Spec.LoadBalancerClass = &class
			}
		})
		key := "default/" + s.Name
		w.create(s)
		w.sync(s.Name)
		if i%10 != 2 { // with a finalizer, the usual way; else gone without one
			w.delete(s.Name)
			w.sync(s.Name)
		}
		if err := indexer.Delete(s); err != nil {
			t.Fatal(err)
		}
		w.c.sync(t.Context(), key)
		w.events()
		w.cloud.take()
	}
	if n := len(w.c.records.byKey); n != 0 {
		t.Errorf("%d of %d Services that are gone are remembered", n, services)
	}
	if n := w.c.queue.Len(); n != 0 {
		t.Errorf("%d keys are queued", n)
	}
}
