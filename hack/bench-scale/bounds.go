package main

import (
	"errors"
	"fmt"
)

// The bounds. How much of a machine a Node costs is measured, so that it has a wide margin; what is counted has a
// narrow one.
const (
	boundNodes, boundServices = 5000, 500
	// maxCalls is how many calls boundNodes new Nodes may cost, and maxMemory what the manager may have at rest.
	maxCalls  = 40
	maxMemory = 250_000_000
	// callsMargin and cpuMargin are how many times the cost of a Node may be, in the largest cluster, that of one in
	// the smallest.
	callsMargin = 1.1
	cpuMargin   = 1.5
)

// held are the phases whose cost a Node must not grow with their number.
func held() []string { return []string{initialized, cycle} }

// check returns an error for each bound that is not held.
func check(all []*result) error {
	var errs []error
	for _, r := range all {
		if n := r.phase(initialized).calls.sum(); r.nodes <= boundNodes && n > maxCalls {
			errs = append(errs, fmt.Errorf("%d new Nodes cost %d calls of the cloud, more than %d", r.nodes, n, maxCalls))
		}
		if r.nodes <= boundNodes && r.services <= boundServices && r.rss > maxMemory {
			errs = append(errs, fmt.Errorf("with %d Nodes and %d Services the manager has %.0f MB, more than %d", r.nodes, r.services, float64(r.rss)/1e6, maxMemory/1_000_000))
		}
	}
	if len(all) < 2 {
		return errors.Join(errs...)
	}
	small, large := all[0], all[len(all)-1]
	for _, name := range held() {
		a, b := small.phase(name), large.phase(name)
		if x, y := perNode(float64(a.calls.sum()), small), perNode(float64(b.calls.sum()), large); y > x*callsMargin {
			errs = append(errs, fmt.Errorf("%s: %.2f calls a thousand Nodes with %d, %.2f with %d: the cost of a Node grows", name, 1000*x, small.nodes, 1000*y, large.nodes))
		}
		if x, y := perNode(a.cpu.Seconds(), small), perNode(b.cpu.Seconds(), large); y > x*cpuMargin {
			errs = append(errs, fmt.Errorf("%s: %.2f ms of CPU a Node with %d, %.2f ms with %d: the cost of a Node grows", name, 1000*x, small.nodes, 1000*y, large.nodes))
		}
	}
	return errors.Join(errs...)
}

func perNode(v float64, r *result) float64 { return v / float64(r.nodes) }
