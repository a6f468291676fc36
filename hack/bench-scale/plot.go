package main

import (
	"fmt"
	"math"
	"strings"
)

// line is a curve of a chart: what it is called, and a value for each x.
type line struct {
	name   string
	values []float64
}

// chart is a diagram with one x axis and a y axis that begins at 0.
type chart struct {
	title string
	lines []line
}

const (
	chartWidth, chartHeight = 340.0, 300.0
	left, right, top, under = 56.0, 12.0, 34.0, 78.0
)

// colors are readable on white and on dark gray, and tell the lines apart in gray, too, by their dashes.
func colors() []string { return []string{"#0b6fb8", "#c2571a", "#3a8f3a"} }

func dashes() []string { return []string{"", "6 3", "2 3"} }

// plot is the SVG of charts side by side, over xs.
func plot(xLabel string, xs []float64, charts []chart) string {
	var b strings.Builder
	width := chartWidth * float64(len(charts))
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="11"><rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n", width, chartHeight)
	for i, c := range charts {
		fmt.Fprintf(&b, `<g transform="translate(%g 0)">`+"\n", chartWidth*float64(i))
		c.draw(&b, xLabel, xs)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (c chart) draw(b *strings.Builder, xLabel string, xs []float64) {
	most := 0.0
	for _, l := range c.lines {
		for _, v := range l.values {
			most = max(most, v)
		}
	}
	step := niceStep(most)
	ceiling := max(step, step*math.Ceil(most/step))
	x := func(v float64) float64 { return left + v/xs[len(xs)-1]*(chartWidth-left-right) }
	y := func(v float64) float64 { return chartHeight - under - v/ceiling*(chartHeight-under-top) }
	fmt.Fprintf(b, `<text x="%g" y="18" font-weight="bold">%s</text>`+"\n", left, c.title)
	for v := 0.0; v <= ceiling+step/2; v += step {
		fmt.Fprintf(b, `<path d="M%g %gH%g" stroke="#dddddd"/><text x="%g" y="%g" text-anchor="end">%g</text>`+"\n", left, y(v), chartWidth-right, left-6, y(v)+4, math.Round(v*1000)/1000)
	}
	fmt.Fprintf(b, `<path d="M%g %gV%gH%g" stroke="#333333" fill="none"/>`+"\n", left, top, y(0), chartWidth-right)
	for _, v := range xs {
		fmt.Fprintf(b, `<path d="M%g %gv4" stroke="#333333"/><text x="%g" y="%g" text-anchor="middle">%g</text>`+"\n", x(v), y(0), x(v), y(0)+16, v)
	}
	fmt.Fprintf(b, `<text x="%g" y="%g" text-anchor="middle">%s</text>`+"\n", (left+chartWidth-right)/2, y(0)+30, xLabel)
	for i, l := range c.lines {
		var points []string
		for k, v := range l.values {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(xs[k]), y(v)))
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x(xs[k]), y(v), colors()[i])
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n", strings.Join(points, " "), colors()[i], dashes()[i])
		at := y(0) + 46 + 14*float64(i)
		fmt.Fprintf(b, `<path d="M%g %gh22" stroke="%s" stroke-width="2" stroke-dasharray="%s"/><text x="%g" y="%g">%s</text>`+"\n", left, at-4, colors()[i], dashes()[i], left+28, at, l.name)
	}
}

// niceStep is a distance of grid lines of which three to six reach most: 1, 2 or 5 times a power of ten.
func niceStep(most float64) float64 {
	if most <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most/3)))
	for _, f := range []float64{1, 2, 5} {
		if most/(f*power) <= 6 {
			return f * power
		}
	}
	return 10 * power
}

// plot is the report's.
func (r *report) plot() string {
	var xs []float64
	of := func(name string, f func(*result) float64) line {
		l := line{name: name}
		for _, res := range r.results {
			l.values = append(l.values, f(res))
		}
		return l
	}
	callsOf := func(phase string) line {
		return of(phase, func(res *result) float64 { return float64(res.phase(phase).calls.sum()) })
	}
	cpuOf := func(phase string) line {
		return of(phase, func(res *result) float64 { return 1000 * perNode(res.phase(phase).cpu.Seconds(), res) })
	}
	for _, res := range r.results {
		xs = append(xs, float64(res.nodes))
	}
	return plot("Nodes", xs, []chart{
		{"Calls of the cloud", []line{callsOf(initialized), callsOf(cycle)}},
		{"CPU time a Node, ms", []line{cpuOf(initialized), cpuOf(cycle)}},
		{"Memory, MB", []line{
			of("at rest", func(res *result) float64 { return float64(res.rss) / 1e6 }),
			of("at most", func(res *result) float64 { return float64(res.peak) / 1e6 }),
		}},
	})
}
