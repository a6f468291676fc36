package pvlabel

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
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
	if r == nil {
		return m, nil
	}
	err := r.Register(m.volumes)
	var there prometheus.AlreadyRegisteredError
	if errors.As(err, &there) {
		if same, ok := there.ExistingCollector.(*prometheus.CounterVec); ok {
			m.volumes, err = same, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("register the metrics of %s: %w", Name, err)
	}
	return m, nil
}

func (m *Metrics) count(result string) { m.volumes.WithLabelValues(result).Inc() }
