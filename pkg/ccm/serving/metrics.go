package serving

import (
	"fmt"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// maxScrapes is how many requests for metrics are answered at a time.
const maxScrapes = 16

// metricsHandler serves both registries, controller-runtime's, which is also Isthmus's own, and that
// of the framework's controllers; and which build this is.
func metricsHandler() http.Handler {
	build := prometheus.NewRegistry()
	build.MustRegister(BuildInfo())
	return promhttp.HandlerFor(
		union{metrics.Registry, legacyregistry.DefaultGatherer, build},
		// Each costs memory, and --authorization-always-allow-paths may open them to everyone.
		promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: maxScrapes},
	)
}

// BuildInfo is the metric that is always 1 and says by its labels which build this is.
func BuildInfo() prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "isthmus_build_info",
		Help:        "Always 1: the version of Isthmus, and of Go it was built with.",
		ConstLabels: prometheus.Labels{"version": version.String(), "goversion": runtime.Version()},
	})
	info.Set(1)
	return info
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
