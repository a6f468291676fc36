package service

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
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
