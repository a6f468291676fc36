package registration

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestCountersStartAtZero: an alert on a rate sees the first failure, too.
func TestCountersStartAtZero(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	if _, err := newMetrics(r); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.GatherAndCount(r, "isthmus_webhook_registration_writes_total"); err != nil || n != 12 {
		t.Errorf("isthmus_webhook_registration_writes_total: %d series, %v", n, err)
	}
	if n, err := testutil.GatherAndCount(r, "isthmus_webhook_registration_errors_total"); err != nil || n != 2 {
		t.Errorf("isthmus_webhook_registration_errors_total: %d series, %v", n, err)
	}
}
