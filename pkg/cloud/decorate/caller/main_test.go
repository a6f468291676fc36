package caller

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newMetrics(t *testing.T) *Metrics {
	t.Helper()
	m, err := NewMetrics(prometheus.NewPedanticRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// value is a counter's or gauge's value, or how often a histogram was fed.
func value(t *testing.T, metric any) float64 {
	t.Helper()
	var got dto.Metric
	if err := metric.(prometheus.Metric).Write(&got); err != nil {
		t.Fatal(err)
	}
	return got.GetCounter().GetValue() + got.GetGauge().GetValue() + float64(got.GetHistogram().GetSampleCount())
}

func wantMetric(t *testing.T, metric any, want float64) {
	t.Helper()
	if got := value(t, metric); got != want {
		t.Errorf("metric is %v, want %v: %v", got, want, metric.(prometheus.Metric).Desc())
	}
}
