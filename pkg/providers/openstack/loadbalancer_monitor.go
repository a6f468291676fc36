package openstack

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// monitorNumber is one of a monitor's numbers: where it is read from and what Octavia takes.
type monitorNumber struct {
	name       string // of the annotation
	configured int
	most       int
}

// monitorNumbers are delay, timeout and the two numbers of tries.
func (w *lbWishes) monitorNumbers() [4]monitorNumber {
	return [4]monitorNumber{
		{annMonitorDelay, seconds(w.cfg.MonitorDelay), maxSeconds},
		{annMonitorTimeout, seconds(w.cfg.MonitorTimeout), maxSeconds},
		{annMonitorRetries, w.cfg.MonitorMaxRetries, maxRetries},
		{annMonitorRetriesDown, w.cfg.MonitorMaxRetriesDown, maxRetries},
	}
}

// defaultRetriesDown is Octavia's own default, which it takes where the number is 0 as well, for
// other controllers do not send that.
const defaultRetriesDown = 3

// read is the number, and whether Octavia takes it.
func (n monitorNumber) read(s cloud.Settings) (value int, ok bool) {
	value = s.Int(n.name, n.configured)
	if n.name == annMonitorRetriesDown {
		value = cmp.Or(value, defaultRetriesDown)
	}
	return value, value >= 1 && value <= n.most
}

// monitor is the health monitor that the pools get, without name and type; ok is false for none.
// A number that Octavia does not take is 0: then a monitor that is there keeps what it has.
func (w *lbWishes) monitor() (m lbMonitor, ok bool) {
	var values [4]int
	for i, n := range w.monitorNumbers() {
		if value, ok := n.read(w.spec.Settings); ok {
			values[i] = value
		}
	}
	m = lbMonitor{Delay: values[0], Timeout: values[1], MaxRetries: values[2], MaxRetriesDown: values[3]}
	return m, w.spec.HealthCheck != nil || w.asksForMonitor()
}

// wrongMonitorNumbers refuses numbers of monitors that Octavia does not take.
func (w *lbWishes) wrongMonitorNumbers() (problems field.ErrorList) {
	if _, ok := w.monitor(); !ok {
		return nil
	}
	for _, n := range w.monitorNumbers() {
		if value, ok := n.read(w.spec.Settings); !ok {
			problems = append(problems, field.Invalid(cloud.AnnotationPath(n.name), fmt.Sprint(value), fmt.Sprintf("use an integer between 1 and %d", n.most)))
		}
	}
	return problems
}

// over is the monitor as it is to be where there is have. Where there is none, nil, numbers that
// cannot be had are cloud.conf's defaults.
func (m *lbMonitor) over(have *lbMonitor) *lbMonitor {
	out := *m
	if have == nil {
		have = &lbMonitor{Delay: 5, Timeout: 3, MaxRetries: 1, MaxRetriesDown: defaultRetriesDown}
	}
	out.Delay, out.Timeout = cmp.Or(m.Delay, have.Delay), cmp.Or(m.Timeout, have.Timeout)
	out.MaxRetries, out.MaxRetriesDown = cmp.Or(m.MaxRetries, have.MaxRetries), cmp.Or(m.MaxRetriesDown, have.MaxRetriesDown)
	return &out
}
