package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/hack/plot"
)

const (
	// step is the distance of the values that Prometheus is asked for, and rateInterval what Grafana would make of it.
	step         = 2 * time.Second
	rateInterval = "15s"
)

// panel is one of the dashboard's.
type panel struct {
	Title       string
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []target
}

// target is a question to Prometheus, and how the lines of its answer are called.
type target struct{ Expr, LegendFormat string }

func readPanels(file string) ([]panel, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(data, &dashboard); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, p := range dashboard.Panels {
		if _, ok := units()[p.FieldConfig.Defaults.Unit]; !ok {
			return nil, fmt.Errorf("%s: panel %q has a unit %q that is not known here", file, p.Title, p.FieldConfig.Defaults.Unit)
		}
	}
	return dashboard.Panels, nil
}

// units are how Grafana's units are written.
func units() map[string]func(float64) string {
	number := func(unit string) func(float64) string {
		return func(v float64) string { return fmt.Sprintf("%g%s", math.Round(v*1e6)/1e6, unit) }
	}
	return map[string]func(float64) string{"none": number(""), "reqps": number("/s"), "percentunit": func(v float64) string { return number(" %")(100 * v) }, "s": duration}
}

// duration writes seconds in the unit that suits them.
func duration(s float64) string {
	switch {
	case s == 0:
		return "0"
	case s < 1:
		return fmt.Sprintf("%g ms", math.Round(s*1e4)/10)
	case s < 300:
		return fmt.Sprintf("%g s", math.Round(s*10)/10)
	case s < 48*3600:
		return fmt.Sprintf("%.1f h", s/3600)
	}
	return fmt.Sprintf("%.0f d", s/86400)
}

// series is a line of an answer: a value, or none, for each step.
type series struct {
	labels map[string]string
	values []float64
}

// source answers questions about the time since begin, in steps.
type source interface {
	query(ctx context.Context, expr string, begin time.Time, steps int) ([]series, error)
}

// ask makes a chart of each panel.
func ask(ctx context.Context, from source, panels []panel, begin time.Time, steps int) ([]plot.Chart, error) {
	var charts []plot.Chart
	for _, p := range panels {
		chart := plot.Chart{Title: p.Title, Format: units()[p.FieldConfig.Defaults.Unit]}
		for _, t := range p.Targets {
			answer, err := from.query(ctx, strings.ReplaceAll(t.Expr, "$__rate_interval", rateInterval), begin, steps)
			if err != nil {
				return nil, fmt.Errorf("panel %q: %w", p.Title, err)
			}
			for _, s := range answer {
				chart.Lines = append(chart.Lines, plot.Line{Name: legend(t.LegendFormat, s.labels), Values: s.values})
			}
		}
		// The highest first: they are named where there are too many.
		slices.SortStableFunc(chart.Lines, func(a, b plot.Line) int { return cmp.Compare(highest(b.Values), highest(a.Values)) })
		charts = append(charts, chart)
	}
	return charts, nil
}

func highest(values []float64) float64 {
	out := math.Inf(-1)
	for _, v := range values {
		if v > out {
			out = v
		}
	}
	return out
}

var label = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// legend fills labels into {{name}}, as Grafana does.
func legend(format string, labels map[string]string) string {
	return label.ReplaceAllStringFunc(format, func(s string) string { return labels[label.FindStringSubmatch(s)[1]] })
}

// axis is that of a run of that length.
func axis(length time.Duration, marks []plot.Mark) plot.Axis {
	x := plot.Axis{Label: "seconds", Marks: marks}
	for at := time.Duration(0); at <= length; at += step {
		x.Xs = append(x.Xs, at.Seconds())
	}
	for at := 0.0; at <= x.Xs[len(x.Xs)-1]; at += 30 {
		x.Ticks = append(x.Ticks, at)
	}
	return x
}

func draw(x plot.Axis, charts []plot.Chart) string { return plot.SVG(x, charts) }
