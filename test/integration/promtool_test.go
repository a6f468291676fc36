package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

const monitoring = "../../manifests/monitoring/"

// alertRules are those that ship.
func alertRules(t *testing.T) []monitoringv1.Rule {
	t.Helper()
	var rules []monitoringv1.Rule
	for _, g := range prometheusRule(t).Spec.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

func prometheusRule(t *testing.T) *monitoringv1.PrometheusRule {
	t.Helper()
	data, err := os.ReadFile(monitoring + "prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := &monitoringv1.PrometheusRule{}
	if err := yaml.UnmarshalStrict(data, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// panelQueries are the dashboard's, with a rate's interval put in, by the panel's title.
func panelQueries(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(monitoring + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			out[p.Title] = append(out[p.Title], strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
		}
	}
	return out
}

// scrape is what /metrics said: the values of series, and which of them only grow.
type scrape struct {
	values map[string]float64
	grows  map[string]bool
	at     time.Time
}

var (
	seriesLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$`)
	typeLine   = regexp.MustCompile(`^# TYPE (\S+) (\S+)$`)
)

// scrape reads /metrics.
func (p *process) scrape() scrape {
	p.t.Helper()
	status, text := p.get("/metrics", "")
	if status != 200 {
		return scrape{}
	}
	return scraped(p.t, text)
}

// scraped is what text, the answer of /metrics, says.
func scraped(t *testing.T, text string) scrape {
	t.Helper()
	s := scrape{values: map[string]float64{}, grows: map[string]bool{}, at: time.Now()}
	growing := false
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if found := typeLine.FindStringSubmatch(lines.Text()); found != nil {
			growing = found[2] != "gauge"
			continue
		}
		found := seriesLine.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		value, err := strconv.ParseFloat(found[3], 64)
		if err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		key := found[1] + found[2]
		s.values[key], s.grows[key] = value, growing
	}
	return s
}

// sum adds up the series of a metric whose labels contain all parts.
func (s scrape) sum(name string, parts ...string) (total float64) {
	for key, value := range s.values {
		metric, labels, _ := strings.Cut(key, "{")
		if metric == name && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(labels, p) }) {
			total += value
		}
	}
	return total
}

const (
	// judgedAt is the minute at which alerts are judged. What is wrong is so from minute 30 on.
	judgedAt = 60
	onsetAt  = 30
)

// history is how a series went: as before until onset, then as after, or no more. Of what a fault makes grow, each minute has as much as
// was seen; where nothing is wrong, it has grown once.
func history(key string, before, after scrape, goesOn bool) string {
	format := func(v float64) string {
		if strings.Contains(key, "_timestamp_seconds") && v > 0 { // minutes begin in 1970
			v += judgedAt*60 - float64(after.at.Unix())
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	a, had := before.values[key]
	b, has := after.values[key]
	if !has { // what Prometheus makes of it
		return fmt.Sprintf("%s+0x%d stale", format(a), onsetAt-1)
	}
	first := fmt.Sprintf("_x%d", onsetAt)
	if had {
		first = fmt.Sprintf("%s+0x%d", format(a), onsetAt-1)
	}
	step := 0.0
	if goesOn && after.grows[key] {
		step = max(b-a, 0)
	}
	return fmt.Sprintf("%s %s+%sx%d", first, format(b), strconv.FormatFloat(step, 'f', -1, 64), judgedAt)
}

// check is what promtool is to find.
type check struct {
	Expr    string   `json:"expr"`
	At      string   `json:"eval_time"`
	Samples []sample `json:"exp_samples"`
}

type sample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

// firing checks that want fire, and nothing but them and also.
func firing(want, also []string) []check {
	at := fmt.Sprintf("%dm", judgedAt)
	var checks []check
	for _, name := range want {
		checks = append(checks, check{fmt.Sprintf(`group by (alertname) (ALERTS{alertstate="firing", alertname=%q})`, name), at,
			[]sample{{fmt.Sprintf(`{alertname=%q}`, name), 1}}})
	}
	others := strings.Join(append(slices.Clone(want), also...), "|")
	return append(checks, check{fmt.Sprintf(`group by (alertname) (ALERTS{alertstate="firing", alertname!~%q})`, others), at, []sample{}})
}

// promtool has Prometheus' own tool judge the rules that ship over the two scrapes.
func promtool(t *testing.T, before, after scrape, goesOn bool, checks []check) {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, content any) string {
		data, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	rules := put("rules.yaml", prometheusRule(t).Spec)
	type series struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	var input []series
	keys := maps.Clone(before.values)
	maps.Copy(keys, after.values)
	for key := range keys {
		if strings.HasPrefix(key, "go_") || strings.Contains(key, "rest_client_") && strings.Contains(key, "_bucket") {
			continue // nobody asks for them
		}
		labeled := strings.TrimSuffix(key, "}") + `,pod="isthmus-0"}`
		if !strings.Contains(key, "{") {
			labeled = key + `{pod="isthmus-0"}`
		}
		input = append(input, series{labeled, history(key, before, after, goesOn)})
	}
	slices.SortFunc(input, func(a, b series) int { return strings.Compare(a.Series, b.Series) })
	test := put("test.yaml", map[string]any{"rule_files": []string{rules}, "evaluation_interval": "1m",
		"tests": []any{map[string]any{"interval": "1m", "input_series": input, "promql_expr_test": checks}}})
	if out, err := exec.CommandContext(t.Context(), controlplane.Tool(t, "promtool"), "test", "rules", test).CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%.4000s", err, out)
	}
}
