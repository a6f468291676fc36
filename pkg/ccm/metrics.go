package ccm

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// metricsHandler serves both registries: controller-runtime's, which is also Isthmus's own,
// and that of the framework's controllers.
func metricsHandler() http.Handler {
	return promhttp.HandlerFor(
		union{metrics.Registry, legacyregistry.DefaultGatherer},
		promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError},
	)
}

// union gathers several registries; of families that several have (the process's and Go's
// own), the first one's is taken.
type union []prometheus.Gatherer

// Gather implements prometheus.Gatherer.
func (u union) Gather() ([]*dto.MetricFamily, error) {
	seen := map[string]bool{}
	var all []*dto.MetricFamily
	for _, g := range u {
		families, err := g.Gather()
		if err != nil {
			return nil, fmt.Errorf("gather metrics: %w", err)
		}
		names := make([]string, 0, len(families))
		for _, f := range families {
			if !seen[f.GetName()] {
				all = append(all, f)
				names = append(names, f.GetName())
			}
		}
		for _, n := range names {
			seen[n] = true
		}
	}
	return all, nil
}
