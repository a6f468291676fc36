package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/isthmus-cloud/isthmus/hack/rig"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// prometheus is a running one.
type prometheus struct {
	process *rig.Process
	url     string
}

// startPrometheus starts one that scrapes the manager at address each second.
func startPrometheus(ctx context.Context, r *recording, address string) (*prometheus, error) {
	config := filepath.Join(r.dir, "prometheus.yaml")
	err := os.WriteFile(config, fmt.Appendf(nil, `global: {scrape_interval: 1s}
scrape_configs:
- job_name: isthmus
  scheme: https
  tls_config: {insecure_skip_verify: true} # the certificate is self-signed, and on this machine
  static_configs: [{targets: [%q]}]
`, address), 0o600)
	if err != nil {
		return nil, err
	}
	port, err := controlplane.FreePort("127.0.0.1")
	if err != nil {
		return nil, err
	}
	p := &prometheus{url: "http://127.0.0.1:" + port}
	p.process, err = rig.StartProcess(r.binary, filepath.Join(r.dir, "prometheus.log"), nil,
		"--config.file="+config, "--storage.tsdb.path="+filepath.Join(r.dir, "prometheus"), "--web.listen-address=127.0.0.1:"+port)
	if err != nil {
		return nil, fmt.Errorf("%w: run `make bin/prometheus`", err)
	}
	err = rig.Wait{Every: 200 * time.Millisecond, Process: p.process}.Until(ctx, func() (bool, string) {
		up, err := p.query(ctx, "up == 1", time.Now(), 1)
		return err == nil && len(up) == 1, fmt.Sprint("the manager is not scraped: ", err)
	})
	if err != nil {
		p.process.Stop()
		return nil, err
	}
	return p, nil
}

// query implements source.
func (p *prometheus) query(ctx context.Context, expr string, begin time.Time, steps int) ([]series, error) {
	second := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
	values := url.Values{"query": {expr}, "start": {second(begin)}, "end": {second(begin.Add(time.Duration(steps-1) * step))}, "step": {fmt.Sprint(step.Seconds())}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/query_range?"+values.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return parse(body, begin, steps)
}

// parse reads an answer of /api/v1/query_range.
func parse(body []byte, begin time.Time, steps int) ([]series, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("prometheus: %s", answer.Error)
	}
	var out []series
	for _, r := range answer.Data.Result {
		s := series{labels: r.Metric, values: make([]float64, steps)}
		for i := range s.values {
			s.values[i] = math.NaN()
		}
		for _, v := range r.Values {
			at, isTime := v[0].(float64)
			text, isText := v[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			i := int(math.Round((at - float64(begin.UnixMilli())/1000) / step.Seconds()))
			if !isTime || !isText || err != nil || i < 0 || i >= steps {
				return nil, fmt.Errorf("prometheus: a value %v", v)
			}
			s.values[i] = value
		}
		out = append(out, s)
	}
	return out, nil
}
