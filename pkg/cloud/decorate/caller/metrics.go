package caller

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// kindOK is the kind of a call without an error.
const kindOK = "OK"

// Metrics are the cloud's numbers. No label holds an object's name.
type Metrics struct {
	// Of instancecache.
	Lookups, Refreshes, Contradictions *prometheus.CounterVec
	SnapshotSize, GuardOn, Held        *prometheus.GaugeVec
	RefreshTime                        *prometheus.GaugeVec

	calls, batchSize, requestTime   *prometheus.HistogramVec
	inFlight                        *prometheus.GaugeVec
	outcomes                        *prometheus.CounterVec
	retries, throttleWait, requests *prometheus.CounterVec
	reloads                         *prometheus.CounterVec
	reloadTime, reloadPending       *prometheus.GaugeVec
	expires, loginExpires, kept     *prometheus.GaugeVec
}

// NewMetrics makes the metrics and registers them with r, e.g. controller-runtime's
// metrics.Registry; nil registers them nowhere. Make one per process: the name of the
// provider is a label. The error is that of a registry which has some of them already.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	durations := []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 180}
	m := &Metrics{
		calls: histogram("call_duration_seconds", "Calls of a cloud's abilities, each attempt by itself, by the kind of their error or OK.",
			durations, "provider", "ability", "operation", "kind"),
		outcomes: counter("calls_total", "Calls of a cloud's abilities, each attempt by itself, by the kind of their error or OK. All kinds begin at zero.",
			"provider", "ability", "operation", "kind"),
		inFlight: gauge("calls_in_flight", "Calls of a cloud's abilities that have not returned.",
			"provider", "ability", "operation"),
		batchSize: histogram("batch_size", "Objects in one call.",
			[]float64{1, 2, 5, 10, 50, 100, 500, 1000, 5000}, "provider", "ability", "operation"),
		retries: counter("retries_total", "Calls tried again, by the kind of the error.",
			"provider", "ability", "operation", "kind"),
		throttleWait: counter("throttle_wait_seconds_total", "Time that calls were held back because the cloud asked for it.",
			"provider"),
		Lookups: counter("instance_lookups_total",
			"Instance lookups: hit (snapshot), shared (a batch under way), miss (new batch), absent (the snapshot's batch did not have it), failed (a batch has just failed).",
			"provider", "result"),
		Refreshes:    counter("instance_refreshes_total", "Batches read into the snapshot of instances.", "provider"),
		SnapshotSize: gauge("instance_snapshot_size", "Instances in the snapshot.", "provider"),
		RefreshTime: gauge("instance_refresh_timestamp_seconds",
			"When the cloud last answered a batch of instances, in seconds since 1970; 0 before the first. Nobody asks where no Node gives a reason.", "provider"),
		Contradictions: counter("instance_contradictions_total",
			"Instances that a batch read did not have and a direct read found.", "provider"),
		requests: counter("api_requests_total", "Requests to the cloud's API by status code; 0 is no answer.",
			"provider", "service", "method", "code"),
		requestTime: histogram("api_request_duration_seconds", "Duration of requests to the cloud's API.",
			durations, "provider", "service", "method"),
		GuardOn: gauge("node_deletion_brake",
			"1 while the deletion guard keeps Nodes whose instances were not found.", "provider"),
		Held: gauge("nodes_held", "Nodes that the deletion guard keeps.", "provider"),
		reloads: counter("credential_reloads_total",
			"Attempts to take over credentials that changed on disk, by result: success or failure.", "provider", "result"),
		reloadTime: gauge("credential_reload_timestamp_seconds",
			"When credentials that changed on disk were taken over last, in seconds since 1970; 0: not since the start.", "provider"),
		expires: gauge("credential_expiration_timestamp_seconds",
			"When what the cloud issued last for the credentials (a token, temporary keys) expires, in seconds since 1970; 0 while it has issued nothing that does. It is renewed at the next request.", "provider"),
		loginExpires: gauge("login_expiration_timestamp_seconds",
			"When what the cloud is logged in to with (an OpenStack application credential, a password) expires, in seconds since 1970; 0 where it does not, or the cloud does not tell: only OpenStack does.", "provider"),
		kept: gauge("inventory_refresh_timestamp_seconds",
			"When what is kept in memory of the cloud was read last, in seconds since 1970; 0 before the first time. It is read when somebody asks for it and it is too old for that. Of several vCenters it is the one that was read last; further regions of OpenStack are not counted.", "provider", "inventory"),
		reloadPending: gauge("credential_reload_pending",
			"1 while the credentials on disk are not usable and older ones are in use, else 0.", "provider"),
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.calls, m.outcomes, m.inFlight, m.batchSize, m.retries, m.throttleWait, m.Lookups,
		m.Refreshes, m.SnapshotSize, m.RefreshTime, m.Contradictions, m.requests, m.requestTime, m.GuardOn, m.Held,
		m.reloads, m.reloadTime, m.reloadPending, m.expires, m.loginExpires, m.kept} {
		if err := r.Register(c); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register the cloud's metrics: %w", err)
	}
	return m, nil
}

// Reloaded is the hook by which the provider of that name counts its reloads of credentials.
func (m *Metrics) Reloaded(provider string) func(err error) {
	pending, failure, success := m.reloadPending.WithLabelValues(provider), m.reloads.WithLabelValues(provider, "failure"), m.reloads.WithLabelValues(provider, "success")
	at := m.reloadTime.WithLabelValues(provider)
	return func(err error) {
		if err != nil {
			failure.Inc()
			pending.Set(1)
			return
		}
		success.Inc()
		at.SetToCurrentTime()
		pending.Set(0)
	}
}

// Expires is the hook by which the provider of that name says when what the cloud has issued to it ends.
func (m *Metrics) Expires(provider string) func(at time.Time) {
	return timeOr0(m.expires.WithLabelValues(provider))
}

// LoginExpires is the hook by which the provider of that name says when what it logs in with ends.
func (m *Metrics) LoginExpires(provider string) func(at time.Time) {
	return timeOr0(m.loginExpires.WithLabelValues(provider))
}

func timeOr0(gauge prometheus.Gauge) func(at time.Time) {
	return func(at time.Time) {
		if at.IsZero() {
			gauge.Set(0)
			return
		}
		gauge.Set(float64(at.Unix()))
	}
}

// Kept is cloud.Options' Kept for the provider of that name.
func (m *Metrics) Kept(provider string) func(inventory string) func(at time.Time) {
	return func(inventory string) func(at time.Time) {
		gauge := m.kept.WithLabelValues(provider, inventory)
		return func(at time.Time) { gauge.Set(float64(at.Unix())) }
	}
}

// StartInstances gives the counters of instances of that provider a zero for alerts to start from.
func (m *Metrics) StartInstances(provider string) {
	for _, result := range []string{"hit", "shared", "miss", "absent", "failed"} {
		m.Lookups.WithLabelValues(provider, result)
	}
	m.Refreshes.WithLabelValues(provider)
	m.Contradictions.WithLabelValues(provider)
	m.throttleWait.WithLabelValues(provider)
	for _, gauge := range []*prometheus.GaugeVec{m.SnapshotSize, m.RefreshTime, m.GuardOn, m.Held} {
		gauge.WithLabelValues(provider)
	}
}

// Start gives the metrics of operations a zero for alerts to start from.
func (c *Caller) Start(operations ...Operation) {
	m := c.Metrics
	for _, op := range operations {
		m.calls.WithLabelValues(c.Provider, op.Ability, op.Name, kindOK) // the histograms of the other kinds would be a thousand series
		m.inFlight.WithLabelValues(c.Provider, op.Ability, op.Name)
		m.outcomes.WithLabelValues(c.Provider, op.Ability, op.Name, kindOK)
		if op.Batched {
			m.batchSize.WithLabelValues(c.Provider, op.Ability, op.Name)
		}
		for k := cloud.KindUnknown; k <= cloud.KindFailed; k++ {
			m.outcomes.WithLabelValues(c.Provider, op.Ability, op.Name, k.String())
			if retryable(k) {
				m.retries.WithLabelValues(c.Provider, op.Ability, op.Name, k.String())
			}
		}
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "isthmus", Subsystem: "cloud", Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "isthmus", Subsystem: "cloud", Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "isthmus", Subsystem: "cloud", Name: name, Help: help, Buckets: buckets}, labels)
}
