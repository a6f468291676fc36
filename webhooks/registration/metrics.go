package registration

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/isthmus-cloud/isthmus/pkg/collectors"
	"github.com/isthmus-cloud/isthmus/webhooks"
)

type metrics struct {
	writes   *prometheus.CounterVec
	failures *prometheus.CounterVec
	upToDate *prometheus.GaugeVec
}

// RegisterMetrics registers the metrics that a Keeper has, with reg, for who lists them.
func RegisterMetrics(reg prometheus.Registerer) error {
	_, err := newMetrics(reg)
	return err
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		reg = ctrlmetrics.Registry
	}
	m := &metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "isthmus_webhook_registration_writes_total",
			Help: "Webhook configurations written by this replica, by kind and reason (created, adopted, changed, repaired, removed, CA added).",
		}, []string{"kind", "reason"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "isthmus_webhook_registration_errors_total",
			Help: "Attempts to read or write a webhook configuration that failed, by kind.",
		}, []string{"kind"}),
		upToDate: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "isthmus_webhook_registration_up_to_date",
			Help: "1 while the webhook configuration in the cluster is as this replica wants it, otherwise 0, by kind.",
		}, []string{"kind"}),
	}
	if err := errors.Join(collectors.Register(reg, &m.writes), collectors.Register(reg, &m.failures), collectors.Register(reg, &m.upToDate)); err != nil {
		return nil, err
	}
	for _, kind := range []string{kindName(webhooks.Mutating), kindName(webhooks.Validating)} {
		for _, why := range []reason{addCA, create, adopt, change, repair, removal} {
			m.writes.WithLabelValues(kind, string(why)) // so that alerts have a zero to start from
		}
		m.failures.WithLabelValues(kind)
	}
	return m, nil
}
