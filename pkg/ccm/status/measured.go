package status

import (
	"cmp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// Which metrics are shown: the workqueues', all of the webhooks', and what was counted for the cloud and by controllers of our own. A test
// looks for each in the reference.
const (
	queueDepth, queueLongest = "workqueue_depth", "workqueue_longest_running_processor_seconds"
	ofWebhooks               = "isthmus_webhook_"
)

var ofControllers = []string{"isthmus_cloud_", "service_controller_", "node_ipam_controller_", "persistentvolume_label_controller_", "kubelet_serving_csr_approver_controller_"}

// measured is what the process's metrics say.
type measured []*dto.MetricFamily

func (s Source) gather() measured {
	if s.Metrics == nil {
		return nil
	}
	families, _ := s.Metrics.Gather() // what could be gathered is returned beside an error
	return families
}

func (m measured) queues() List[Queue] {
	var rows []Queue
	byName := map[string]int{}
	of := func(x *dto.Metric) *Queue {
		name := ""
		for _, l := range x.GetLabel() {
			if l.GetName() == "name" {
				name = text.Line(l.GetValue(), maxText)
			}
		}
		if _, ok := byName[name]; !ok {
			byName[name] = len(rows)
			rows = append(rows, Queue{Name: name})
		}
		return &rows[byName[name]]
	}
	for _, f := range m {
		for _, x := range f.GetMetric() {
			switch f.GetName() {
			case queueDepth:
				of(x).Depth += int(x.GetGauge().GetValue())
			case queueLongest:
				q := of(x)
				q.LongestSeconds = max(q.LongestSeconds, x.GetGauge().GetValue())
			}
		}
	}
	busy := func(q Queue) bool { return q.Depth > 0 || q.LongestSeconds > 0 }
	slices.SortFunc(rows, func(a, b Queue) int { return cmp.Or(waitsFirst(busy(a), busy(b)), strings.Compare(a.Name, b.Name)) })
	return bounded(rows, busy)
}

// webhooks are all series of webhooks but those that count nothing yet; of histograms their counts.
func (m measured) webhooks() List[Metric] {
	return m.series(func(name string) bool { return strings.HasPrefix(name, ofWebhooks) }, func(f *dto.MetricFamily, value float64) bool {
		return value != 0 || f.GetType() == dto.MetricType_GAUGE
	})
}

// counted are the gauges and counters of the cloud and of controllers that are not zero.
func (m measured) counted() List[Metric] {
	return m.series(func(name string) bool {
		return slices.ContainsFunc(ofControllers, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	}, func(f *dto.MetricFamily, value float64) bool {
		return value != 0 && f.GetType() != dto.MetricType_HISTOGRAM
	})
}

func (m measured) series(named func(string) bool, tells func(*dto.MetricFamily, float64) bool) List[Metric] {
	var rows []Metric
	for _, f := range m {
		if !named(f.GetName()) {
			continue
		}
		name := f.GetName()
		if f.GetType() == dto.MetricType_HISTOGRAM {
			name += "_count"
		}
		for _, x := range f.GetMetric() {
			value := x.GetGauge().GetValue() + x.GetCounter().GetValue() + float64(x.GetHistogram().GetSampleCount())
			if tells(f, value) {
				rows = append(rows, Metric{Metric: name, Labels: text.Line(labelText(x), maxText), Value: value})
			}
		}
	}
	return bounded(rows, func(Metric) bool { return false })
}

func labelText(m *dto.Metric) string {
	var parts []string
	for _, l := range m.GetLabel() {
		parts = append(parts, l.GetName()+"="+l.GetValue())
	}
	return strings.Join(parts, " ")
}
