package main

import "github.com/isthmus-cloud/isthmus/hack/plot"

// plot is the report's.
func (r *report) plot() string {
	var xs []float64
	of := func(name string, f func(*result) float64) plot.Line {
		l := plot.Line{Name: name}
		for _, res := range r.results {
			l.Values = append(l.Values, f(res))
		}
		return l
	}
	callsOf := func(phase string) plot.Line {
		return of(phase, func(res *result) float64 { return float64(res.phase(phase).calls.sum()) })
	}
	cpuOf := func(phase string) plot.Line {
		return of(phase, func(res *result) float64 { return 1000 * perNode(res.phase(phase).cpu.Seconds(), res) })
	}
	for _, res := range r.results {
		xs = append(xs, float64(res.nodes))
	}
	return plot.SVG(plot.Axis{Label: "Nodes", Xs: xs, Ticks: xs, Dots: true}, []plot.Chart{
		{Title: "Calls of the cloud", Lines: []plot.Line{callsOf(initialized), callsOf(cycle)}},
		{Title: "CPU time a Node, ms", Lines: []plot.Line{cpuOf(initialized), cpuOf(cycle)}},
		{Title: "Memory, MB", Lines: []plot.Line{
			of("at rest", func(res *result) float64 { return float64(res.rss) / 1e6 }),
			of("at most", func(res *result) float64 { return float64(res.peak) / 1e6 }),
		}},
	})
}
