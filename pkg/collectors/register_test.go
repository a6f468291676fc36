package collectors_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/isthmus-cloud/isthmus/pkg/collectors"
)

func TestRegister(t *testing.T) {
	counter := func() prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "things_total", Help: "Things."})
	}
	r := prometheus.NewRegistry()
	one, other := counter(), counter()
	for _, c := range []*prometheus.Counter{&one, &other} {
		if err := collectors.Register(r, c); err != nil {
			t.Fatal(err)
		}
		(*c).Inc()
	}
	var sum dto.Metric
	if err := one.Write(&sum); err != nil || sum.GetCounter().GetValue() != 2 {
		t.Errorf("the first counts %v, %v; want what both have counted: 2", sum.GetCounter(), err)
	}
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "things_total", Help: "Other things."})
	if err := collectors.Register(r, &gauge); err == nil {
		t.Error("one name for two things")
	}
	nowhere := counter()
	if err := collectors.Register(nil, &nowhere); err != nil {
		t.Error(err)
	}
}
