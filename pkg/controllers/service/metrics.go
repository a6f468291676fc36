package service

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/isthmus-cloud/isthmus/pkg/collectors"
)

// Metrics are the controller's numbers, under the framework's names where it has them. The
// queue's own are workqueue_*{name="service"}.
type Metrics struct {
	syncs           *prometheus.CounterVec
	nodeSyncErrors  prometheus.Counter
	nodeSyncLatency prometheus.Histogram
	hostLatency     prometheus.Histogram
	repairs         prometheus.Counter
}

// NewMetrics makes the metrics and registers them with r; nil registers them nowhere. Those
// that r has already are shared.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	const subsystem = "service_controller"
	seconds := prometheus.ExponentialBuckets(.001, 4, 10)
	m := &Metrics{
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: "loadbalancer_sync_total",
			Help: "Work on load balancers by operation (ensure, verify, update_members, delete) and result (done, waiting, failed)."}, []string{"operation", "result"}),
		nodeSyncErrors: prometheus.NewCounter(prometheus.CounterOpts{Subsystem: subsystem, Name: "nodesync_error_total",
			Help: "Updates of members after a change of Nodes that failed."}),
		nodeSyncLatency: prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: subsystem, Name: "nodesync_latency_seconds",
			Help: "Time to work out which load balancers a change of Nodes concerns.", Buckets: seconds}),
		hostLatency: prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: subsystem, Name: "update_loadbalancer_host_latency_seconds",
			Help: "Time to update one load balancer's members.", Buckets: seconds}),
		repairs: prometheus.NewCounter(prometheus.CounterOpts{Subsystem: subsystem, Name: "repairs_total",
			Help: "Load balancers that others had changed and that were put right."}),
	}
	err := errors.Join(collectors.Register(r, &m.syncs), collectors.Register(r, &m.nodeSyncErrors), collectors.Register(r, &m.nodeSyncLatency),
		collectors.Register(r, &m.hostLatency), collectors.Register(r, &m.repairs))
	if err != nil {
		return nil, fmt.Errorf("service controller: %w", err)
	}
	for _, operation := range []string{"ensure", "verify", "update_members", operationDelete} {
		for _, result := range []string{resultDone, resultWaiting, resultFailed} {
			m.syncs.WithLabelValues(operation, result) // so that alerts have a zero to start from
		}
	}
	return m, nil
}
