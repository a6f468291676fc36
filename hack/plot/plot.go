// Package plot draws charts as SVG, without a library.
package plot

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Line is a curve of a chart: what it is called, and a value for each x; one that is not a number is none.
type Line struct {
	Name   string
	Values []float64
}

// Chart is a diagram with a y axis that begins at 0.
type Chart struct {
	Title string
	Lines []Line
	// Format is how values are written at the axis; nil is as numbers.
	Format func(float64) string
}

// Axis is the x axis of all charts.
type Axis struct {
	Label string
	Xs    []float64
	// Ticks are the values that are written.
	Ticks []float64
	// Dots marks each value of a line.
	Dots  bool
	Marks []Mark
}

// Mark is a vertical line with a name.
type Mark struct {
	X    float64
	Name string
}

// frame is where a chart is drawn: its axes.
type frame struct {
	*strings.Builder
	*Axis
	ceiling float64
}

func (f frame) x(v float64) float64 { return left + v/f.Xs[len(f.Xs)-1]*(chartWidth-left-right) }
func (f frame) y(v float64) float64 { return top + plotHeight - v/f.ceiling*plotHeight }

const (
	chartWidth, plotHeight = 340.0, 188.0
	left, right, top       = 56.0, 12.0, 34.0
	// under is what is below the plot, without the lines' names.
	under, nameHeight = 50.0, 14.0
	// columns is how many charts stand side by side, and maxNames how many lines of a chart are named.
	columns, maxNames = 3, 6
	maxName           = 44
)

// colors are readable on white and on dark gray, and tell the lines apart in gray, too, by their dashes.
func colors() []string {
	return []string{"#0b6fb8", "#c2571a", "#3a8f3a", "#8a4fb0", "#a67c00", "#c2185b", "#5c6670"}
}

func dashes() []string { return []string{"", "6 3", "2 3"} }

// pen is the stroke of a chart's line.
func pen(line int) (color, dash string) {
	return colors()[line%len(colors())], dashes()[line%len(dashes())]
}

// SVG draws charts, three in a row.
func SVG(x Axis, charts []Chart) string {
	var b, rows strings.Builder
	height := 0.0
	for row := range slices.Chunk(charts, columns) {
		names := 0
		for i, c := range row {
			fmt.Fprintf(&rows, `<g transform="translate(%g %g)">`+"\n", chartWidth*float64(i), height)
			c.draw(&rows, &x)
			rows.WriteString("</g>\n")
			names = max(names, min(len(c.Lines), maxNames+1))
		}
		height += top + plotHeight + under + nameHeight*float64(names)
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="11"><rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n",
		chartWidth*float64(min(len(charts), columns)), height)
	return b.String() + rows.String() + "</svg>\n"
}

func (c Chart) draw(b *strings.Builder, axis *Axis) {
	most := 0.0
	for _, l := range c.Lines {
		most = max(most, l.most())
	}
	step := niceStep(most)
	f := frame{Builder: b, Axis: axis, ceiling: max(step, step*math.Ceil(most/step))}
	bottom := f.y(0)
	format := c.Format
	if format == nil {
		format = func(v float64) string { return fmt.Sprint(math.Round(v*1000) / 1000) }
	}
	fmt.Fprintf(b, `<text x="%g" y="18" font-weight="bold">%s</text>`+"\n", left, html.EscapeString(c.Title))
	for v := 0.0; v <= f.ceiling+step/2; v += step {
		fmt.Fprintf(b, `<path d="M%g %gH%g" stroke="#dddddd"/><text x="%g" y="%g" text-anchor="end">%s</text>`+"\n", left, f.y(v), chartWidth-right, left-6, f.y(v)+4, html.EscapeString(format(v)))
	}
	for _, m := range axis.Marks {
		fmt.Fprintf(b, `<path d="M%.1f %gV%g" stroke="#999999" stroke-dasharray="1 3"/><text x="%.1f" y="%g" text-anchor="middle" fill="#666666">%s</text>`+"\n", f.x(m.X), top, bottom, f.x(m.X), top-4, html.EscapeString(m.Name))
	}
	fmt.Fprintf(b, `<path d="M%g %gV%gH%g" stroke="#333333" fill="none"/>`+"\n", left, top, bottom, chartWidth-right)
	for _, v := range axis.Ticks {
		fmt.Fprintf(b, `<path d="M%g %gv4" stroke="#333333"/><text x="%g" y="%g" text-anchor="middle">%g</text>`+"\n", f.x(v), bottom, f.x(v), bottom+16, v)
	}
	fmt.Fprintf(b, `<text x="%g" y="%g" text-anchor="middle">%s</text>`+"\n", (left+chartWidth-right)/2, bottom+30, html.EscapeString(axis.Label))
	for i, l := range c.Lines {
		f.line(i, l)
	}
	c.names(b, bottom+46)
}

// names writes which line is which.
func (c Chart) names(b *strings.Builder, at float64) {
	for i, l := range c.Lines {
		if i == maxNames && len(c.Lines) > maxNames+1 {
			fmt.Fprintf(b, `<text x="%g" y="%g">and %d more</text>`+"\n", left+28, at, len(c.Lines)-i)
			return
		}
		color, dash := pen(i)
		name := l.Name
		if len(name) > maxName {
			name = name[:maxName-1] + "…"
		}
		fmt.Fprintf(b, `<path d="M%g %gh22" stroke="%s" stroke-width="2" stroke-dasharray="%s"/><text x="%g" y="%g">%s</text>`+"\n", left, at-4, color, dash, left+28, at, html.EscapeString(name))
		at += nameHeight
	}
}

// most is the greatest value.
func (l Line) most() float64 {
	most := 0.0
	for _, v := range l.Values {
		if v > most && !math.IsInf(v, 0) {
			most = v
		}
	}
	return most
}

// line draws the chart's line of that number, in pieces where values are missing.
func (f frame) line(number int, l Line) {
	color, dash := pen(number)
	var points []string
	end := func() {
		if len(points) > 0 {
			fmt.Fprintf(f, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n", strings.Join(points, " "), color, dash)
		}
		points = nil
	}
	for k, v := range l.Values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			end()
			continue
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", f.x(f.Xs[k]), f.y(v)))
		if f.Dots {
			fmt.Fprintf(f, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", f.x(f.Xs[k]), f.y(v), color)
		}
	}
	end()
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
