package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// metric is a row of the document.
type metric struct {
	name, kind, help, stability string
	labels                      []string
	// from is since when /metrics has it: start, unless something else is known.
	from string
}

// list is a registry that notes what is registered, also what has no value yet.
type list struct {
	metrics []metric
	err     error
}

var _ prometheus.Registerer = (*list)(nil)

// Register implements prometheus.Registerer.
func (l *list) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 1)
	go func() {
		c.Describe(descs)
		close(descs)
	}()
	for d := range descs {
		m, err := described(d)
		if err == nil {
			m.kind, err = kindOf(c)
		}
		if err != nil {
			l.err = errors.Join(l.err, err)
			continue
		}
		l.metrics = append(l.metrics, m)
	}
	return nil
}

// MustRegister implements prometheus.Registerer.
func (l *list) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		l.err = errors.Join(l.err, l.Register(c))
	}
}

// Unregister implements prometheus.Registerer.
func (*list) Unregister(prometheus.Collector) bool { return false }

// description is what a Desc says; it has no other way to be asked.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*?)", (?:unit: "[^"]*", )?constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

func described(d *prometheus.Desc) (metric, error) {
	found := description.FindStringSubmatch(d.String())
	if found == nil {
		return metric{}, fmt.Errorf("not understood: %s", d)
	}
	m := metric{name: found[1], help: strings.ReplaceAll(found[2], `\"`, `"`), stability: "STABLE"}
	for pair := range strings.SplitSeq(found[3], ",") {
		if name, _, ok := strings.Cut(pair, "="); ok {
			m.labels = append(m.labels, name)
		}
	}
	for name := range strings.SplitSeq(found[4], ",") {
		if name != "" {
			m.labels = append(m.labels, name)
		}
	}
	return m, nil
}

// kindOf is the type of what c collects.
func kindOf(c prometheus.Collector) (string, error) {
	switch c.(type) {
	case *prometheus.CounterVec:
		return "counter", nil
	case *prometheus.GaugeVec:
		return "gauge", nil
	case *prometheus.HistogramVec:
		return "histogram", nil
	}
	single, ok := c.(prometheus.Metric)
	if !ok {
		return "", fmt.Errorf("%T is no kind of metric that is known here", c)
	}
	var value dto.Metric
	if err := single.Write(&value); err != nil {
		return "", err
	}
	switch {
	case value.Counter != nil:
		return "counter", nil
	case value.Gauge != nil:
		return "gauge", nil
	case value.Histogram != nil:
		return "histogram", nil
	}
	return "", fmt.Errorf("%T has no value", c)
}

// stability is what Kubernetes begins the help of its metrics with.
var stability = regexp.MustCompile(`^\[(ALPHA|BETA|STABLE)\] `)

// ofFamily is the row of a family that has a value.
func ofFamily(f *dto.MetricFamily) metric {
	m := metric{name: f.GetName(), kind: strings.ToLower(f.GetType().String()), help: f.GetHelp(), stability: "none"}
	if found := stability.FindStringSubmatch(m.help); found != nil {
		m.stability, m.help = found[1], m.help[len(found[0]):]
	}
	for _, label := range f.GetMetric()[0].GetLabel() {
		m.labels = append(m.labels, label.GetName())
	}
	slices.Sort(m.labels)
	return m
}
