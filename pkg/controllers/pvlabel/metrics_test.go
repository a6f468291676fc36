package pvlabel

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
	if n, err := testutil.GatherAndCount(r, "persistentvolume_label_controller_persistentvolumes_total"); err != nil || n != 3 {
		t.Errorf("persistentvolume_label_controller_persistentvolumes_total: %d series, %v", n, err)
	}
}
