package nodeipam

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/isthmus-cloud/isthmus/pkg/collectors"
)

// Metrics have the names, the mistyped one included, that kube-controller-manager's have.
type Metrics struct {
	allocations, releases *prometheus.CounterVec
	size, usage           *prometheus.GaugeVec
	tries                 *prometheus.HistogramVec
}

// NewMetrics makes the metrics and registers them with r; nil registers them nowhere. What r
// has already is used again.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	const subsystem = "node_ipam_controller"
	labels := []string{"clusterCIDR"}
	m := &Metrics{
		allocations: prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: "cidrset_cidrs_allocations_total",
			Help: "Node CIDRs that were taken."}, labels),
		releases: prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: "cidrset_cidrs_releases_total",
			Help: "Node CIDRs that became free."}, labels),
		size: prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: "cirdset_max_cidrs",
			Help: "Node CIDRs in the cluster CIDR."}, labels),
		usage: prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: "cidrset_usage_cidrs",
			Help: "Share of the cluster CIDR that is taken, between 0 and 1."}, labels),
		tries: prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: subsystem, Name: "cidrset_allocation_tries_per_request",
			Help: "Node CIDRs that were found taken before a free one.", Buckets: prometheus.ExponentialBuckets(1, 5, 5)}, labels),
	}
	return m, errors.Join(collectors.Register(r, &m.allocations), collectors.Register(r, &m.releases), collectors.Register(r, &m.size), collectors.Register(r, &m.usage), collectors.Register(r, &m.tries))
}

// Start has the cluster CIDRs of a configuration counted from zero, also on replicas that do not lead.
func (m *Metrics) Start(c Config) {
	for _, pools := range c.pools() {
		for _, p := range pools {
			m.pool(p)
		}
	}
}

func (m *Metrics) pool(p *pool) {
	m.size.WithLabelValues(p.cidr.String()).Set(float64(len(p.count)))
	m.releases.WithLabelValues(p.cidr.String()) // so that alerts have a zero to start from
	m.tries.WithLabelValues(p.cidr.String())
	m.took(p, p.used)
}

func (m *Metrics) took(p *pool, n int) {
	m.allocations.WithLabelValues(p.cidr.String()).Add(float64(n))
	m.use(p)
}

func (m *Metrics) freed(p *pool, n int) {
	m.releases.WithLabelValues(p.cidr.String()).Add(float64(n))
	m.use(p)
}

func (m *Metrics) tried(p *pool, n int) {
	m.tries.WithLabelValues(p.cidr.String()).Observe(float64(n))
}

func (m *Metrics) use(p *pool) {
	m.usage.WithLabelValues(p.cidr.String()).Set(float64(p.used) / float64(len(p.count)))
}
