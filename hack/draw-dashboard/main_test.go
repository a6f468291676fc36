package main

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/isthmus-cloud/isthmus/hack/plot"
)

// everything answers each question with some lines.
type everything struct{ lines int }

func (e everything) query(_ context.Context, expr string, _ time.Time, steps int) ([]series, error) {
	if strings.Contains(expr, "$") {
		return nil, fmt.Errorf("a variable is left in %s", expr)
	}
	var out []series
	for i := range e.lines {
		labels := map[string]string{}
		for _, l := range []string{"name", "version", "kind", "ability", "operation", "service", "code", "provider", "result", "webhook", "outcome"} {
			labels[l] = fmt.Sprintf("<%s-%d>", l, i)
		}
		s := series{labels: labels}
		for k := range steps {
			s.values = append(s.values, float64(i*k))
		}
		s.values[steps/2] = math.NaN()
		out = append(out, s)
	}
	return out, nil
}

// Each panel of the dashboard that ships can be drawn, whatever Prometheus answers.
func TestEachPanelIsDrawn(t *testing.T) {
	panels, err := readPanels("../../manifests/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	x := axis(time.Minute, []plot.Mark{{X: 10, Name: "A"}})
	for _, lines := range []int{0, 1, 20} {
		charts, err := ask(t.Context(), everything{lines}, panels, time.Time{}, len(x.Xs))
		if err != nil {
			t.Fatal(err)
		}
		svg := draw(x, charts)
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(svg, "<polyline"); lines > 0 && n < 2*lines*len(panels) || strings.Contains(svg, "NaN") {
			t.Errorf("%d pieces of lines in %d panels, each with %d lines of two pieces", n, len(panels), lines)
		}
		for _, p := range panels {
			if len(p.Targets) == 0 || !strings.Contains(svg, ">"+html.EscapeString(p.Title)+"<") {
				t.Errorf("panel %q is not drawn", p.Title)
			}
		}
		if lines == 1 && strings.Contains(svg, "{{") {
			t.Error("a name is not filled in")
		}
	}
}

func TestParseAnswer(t *testing.T) {
	begin := time.Unix(1000, 500e6)
	got, err := parse([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"kind":"OK"},"values":[[1000.5,"1"],[1004.5,"2.5"]]}]}}`), begin, 3)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]series{{labels: map[string]string{"kind": "OK"}, values: []float64{1, math.NaN(), 2.5}}}, got, cmp.AllowUnexported(series{}), cmpopts.EquateNaNs()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, bad := range []string{`{"status":"error","error":"no"}`, `{`, `{"status":"success","data":{"result":[{"values":[[9,"1"]]}]}}`, `{"status":"success","data":{"result":[{"values":[[1000.5,"x"]]}]}}`} {
		if _, err := parse([]byte(bad), begin, 3); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func TestUnits(t *testing.T) {
	for unit, want := range map[string]string{"none": "1.5", "reqps": "1.5/s", "percentunit": "150 %", "s": "1.5 s"} {
		if got := units()[unit](1.5); got != want {
			t.Errorf("%s: %q, want %q", unit, got, want)
		}
	}
	for seconds, want := range map[float64]string{0: "0", 0.25: "250 ms", 3600: "1.0 h", 30 * 86400: "30 d"} {
		if got := duration(seconds); got != want {
			t.Errorf("%g s: %q, want %q", seconds, got, want)
		}
	}
}
