package server

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/isthmus-cloud/isthmus/pkg/collectors"
)

// Outcomes of a request, as the metrics and the audit log name them.
const (
	outcomeAllowed = "allowed"
	outcomePatched = "patched"
	outcomeDenied  = "denied"
	outcomeInvalid = "invalid" // not a request that can be decoded
	outcomeBusy    = "busy"    // more requests at a time than the webhook takes
	outcomeTimeout = "timeout"
	outcomeError   = "error"
	outcomePanic   = "panic"
)

// metrics are the server's own.
type metrics struct {
	duration *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	rejected *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, notAfter, caNotAfter func() time.Time) (*metrics, error) {
	if reg == nil {
		reg = ctrlmetrics.Registry
	}
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "isthmus_webhook_request_duration_seconds",
			Help:    "Time taken to answer admission requests, by webhook and outcome.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"webhook", "outcome"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "isthmus_webhook_requests_in_flight",
			Help: "Admission requests being answered, by webhook.",
		}, []string{"webhook"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "isthmus_webhook_clients_rejected_total",
			Help: "Admission requests refused for their client's certificate, by reason.",
		}, []string{"reason"}),
	}
	if err := errors.Join(collectors.Register(reg, &m.duration), collectors.Register(reg, &m.inFlight), collectors.Register(reg, &m.rejected)); err != nil {
		return nil, err
	}
	for _, reason := range []string{clientUnknown, clientExpired, clientUntrusted, clientUnnamed} {
		m.rejected.WithLabelValues(reason) // so that alerts have a zero to start from
	}
	return m, errors.Join(
		registerExpiry(reg, "isthmus_webhook_certificate_expiration_timestamp_seconds",
			"When the webhook server's certificate expires, in seconds since 1970; 0 while it has none.", notAfter),
		registerExpiry(reg, "isthmus_webhook_ca_expiration_timestamp_seconds",
			"When the first of the CAs expires that the API server is to trust for the webhook server, in seconds since 1970; 0 while none is known.", caNotAfter))
}

// start gives a webhook's metrics a zero for alerts to start from.
func (m *metrics) start(webhook string) {
	m.inFlight.WithLabelValues(webhook)
	for _, outcome := range []string{outcomeAllowed, outcomePatched, outcomeDenied, outcomeInvalid, outcomeBusy, outcomeTimeout, outcomeError, outcomePanic} {
		m.duration.WithLabelValues(webhook, outcome)
	}
}

// RegisterMetrics registers the metrics that a Server has, with reg, for who lists them.
func RegisterMetrics(reg prometheus.Registerer) error {
	none := func() time.Time { return time.Time{} }
	_, err := newMetrics(reg, none, none)
	return err
}

// registerExpiry makes a metric of when. The newest server's is the one to watch.
func registerExpiry(reg prometheus.Registerer, name, help string, when func() time.Time) error {
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		if at := when(); !at.IsZero() {
			return float64(at.Unix())
		}
		return 0
	})
	reg.Unregister(gauge)
	return collectors.Register(reg, &gauge)
}
