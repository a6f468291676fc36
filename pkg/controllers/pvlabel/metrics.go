package pvlabel

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/isthmus-cloud/isthmus/pkg/collectors"
)

// Values of the label result.
const (
	resultLabeled      = "labeled"
	resultContradicted = "contradicted"
	resultFailed       = "failed"
)

// Metrics are the controller's numbers. The queue's own are workqueue_*{name="persistentvolume_label"}.
type Metrics struct {
	volumes *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them with r; nil registers them nowhere. What r
// has already is used again.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{volumes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: "persistentvolume_label_controller", Name: "persistentvolumes_total",
		Help: "PersistentVolumes without their zone, region or node affinity that were looked into, by result (labeled, contradicted, failed).",
	}, []string{"result"})}
	if err := collectors.Register(r, &m.volumes); err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	for _, result := range []string{resultLabeled, resultContradicted, resultFailed} {
		m.volumes.WithLabelValues(result) // so that alerts have a zero to start from
	}
	return m, nil
}

func (m *Metrics) count(result string) { m.volumes.WithLabelValues(result).Inc() }
