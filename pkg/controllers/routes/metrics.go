package routes

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/isthmus-cloud/isthmus/pkg/collectors"
)

// Metrics are the controller's numbers.
type Metrics struct{ held prometheus.Gauge }

// NewMetrics makes the metrics and registers them with r; nil registers them nowhere. Those
// that r has already are shared.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{held: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "isthmus", Subsystem: "cloud", Name: "routes_held",
		Help: "Routes that lead to no Node and are kept, as they are many."})}
	if err := collectors.Register(r, &m.held); err != nil {
		return nil, fmt.Errorf("route controller: %w", err)
	}
	return m, nil
}
