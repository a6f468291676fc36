package service

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCountersStartAtZero: an alert on a rate sees the first failure, too.
func TestCountersStartAtZero(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	if _, err := NewMetrics(r); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.GatherAndCount(r, "service_controller_loadbalancer_sync_total"); err != nil || n != 12 {
		t.Errorf("service_controller_loadbalancer_sync_total: %d series, %v", n, err)
	}
}

// TestAddressDelay: the time to the first address is measured once, from when the Service has asked for it.
func TestAddressDelay(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Metrics = newMetrics(t) })
	want := func(count uint64, sum float64) {
		t.Helper()
		var got dto.Metric
		if err := w.c.Metrics.addressDelay.Write(&got); err != nil {
			t.Fatal(err)
		}
		if h := got.GetHistogram(); h.GetSampleCount() != count || h.GetSampleSum() != sum {
			t.Errorf("%d addresses took %v s, want %d that took %v", h.GetSampleCount(), h.GetSampleSum(), count, sum)
		}
	}
	w.setNodes(node("n1", nil))
	created := metav1.NewTime(w.clock.Now())
	w.create(service("web", func(s *corev1.Service) { s.CreationTimestamp = created }))
	w.clock.Step(7 * time.Second)
	w.sync("web")
	want(1, 7)
	w.clock.Step(2 * time.Hour) // verified, and still there
	w.sync("web")
	want(1, 7)

	plain := service("other", func(s *corev1.Service) {
		s.CreationTimestamp, s.Spec.Type = created, corev1.ServiceTypeClusterIP
	})
	asking := plain.DeepCopy()
	asking.Spec.Type = corev1.ServiceTypeLoadBalancer
	w.create(asking)
	w.c.noteAsked(plain, asking)
	w.clock.Step(3 * time.Second)
	w.sync("other")
	want(2, 10)

	ahead := metav1.NewTime(w.clock.Now().Add(time.Minute))
	w.create(service("ahead", func(s *corev1.Service) { s.CreationTimestamp = ahead }))
	w.sync("ahead")
	want(3, 10)
}

func newMetrics(t *testing.T) *Metrics {
	t.Helper()
	m, err := NewMetrics(prometheus.NewPedanticRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return m
}
