package registration

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

type metrics struct {
	writes   *prometheus.CounterVec
	failures *prometheus.CounterVec
	upToDate *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		reg = ctrlmetrics.Registry
	}
	m := &metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "isthmus_webhook_registration_writes_total",
			Help: "Webhook configurations written by this replica, by kind and reason (created, adopted, changed, repaired, removed).",
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
	var errs [3]error
	m.writes, errs[0] = register(reg, m.writes)
	m.failures, errs[1] = register(reg, m.failures)
	m.upToDate, errs[2] = register(reg, m.upToDate)
	return m, errors.Join(errs[:]...)
}

// register registers c, or returns the equal collector that was registered before.
func register[T prometheus.Collector](reg prometheus.Registerer, c T) (T, error) {
	err := reg.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(T); ok {
			return existing, nil
		}
	}
	if err != nil {
		return c, fmt.Errorf("register metrics: %w", err)
	}
	return c, nil
}
