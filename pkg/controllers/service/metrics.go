package service

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
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
	if r == nil {
		return m, nil
	}
	var errs []error
	m.syncs = register(r, m.syncs, &errs)
	m.nodeSyncErrors = register(r, m.nodeSyncErrors, &errs)
	m.nodeSyncLatency = register(r, m.nodeSyncLatency, &errs)
	m.hostLatency = register(r, m.hostLatency, &errs)
	m.repairs = register(r, m.repairs, &errs)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register the service controller's metrics: %w", err)
	}
	return m, nil
}

// register registers c, and returns the one that r has already if there is one.
func register[C prometheus.Collector](r prometheus.Registerer, c C, errs *[]error) C {
	err := r.Register(c)
	if was := (prometheus.AlreadyRegisteredError{}); errors.As(err, &was) {
		if existing, ok := was.ExistingCollector.(C); ok {
			return existing
		}
	}
	if err != nil {
		*errs = append(*errs, err)
	}
	return c
}
