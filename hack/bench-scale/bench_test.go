package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// What a small cluster costs is what a large one would by Node and Service: each new Node two writes, all Nodes a
// handful of calls, and nothing at all where nothing has changed.
func TestCostsOfASmallCluster(t *testing.T) {
	const nodes, services, members = 200, 10, 5
	o := &options{settings: settings{
		nodes: []int{nodes}, services: []int{services}, members: members,
		delay: 5 * time.Millisecond, pending: 50 * time.Millisecond, timeout: 5 * time.Minute,
		idle: time.Second, quiet: 1500 * time.Millisecond, cycle: 8 * time.Second,
	}}
	r, err := o.measure(t.Context(), t.TempDir(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if r.failed != nil {
		t.Error(r.failed)
	}
	got := r.results[0]
	for name, most := range map[string]struct{ calls, writes int }{
		initialized:         {8, 2 * nodes},
		published(services): {20 * services, 4 * services},
		joined:              {20*services + 10, 2 + 2*services},
		restarted:           {12 + 3*services, 3 * services},
		cycle:               {4, 0},
	} {
		p := got.phase(name)
		if n := p.calls.sum(); n > most.calls || p.writes > most.writes {
			t.Errorf("%s: %d calls %v and %d writes, want at most %d and %d", name, n, p.calls, p.writes, most.calls, most.writes)
		}
	}
	if p := got.phase(initialized); p.writes != 2*nodes {
		t.Errorf("%d writes for %d new Nodes", p.writes, nodes)
	}
	if calls := got.phase(restarted).calls; hasChange(calls) {
		t.Errorf("a restart changes the cloud: %v", calls)
	}
	page := r.markdown("x.svg")
	for _, want := range []string{"| 200 | " + initialized + " |", "servers/detail", "All are held."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

// hasChange reports whether there are calls that change something; a login does not.
func hasChange(c calls) bool {
	for kind := range c {
		if !strings.HasPrefix(kind, "GET ") && !strings.HasPrefix(kind, "HEAD ") && kind != "POST identity/auth/tokens" {
			return true
		}
	}
	return false
}

func sample(nodes, calls int, cpu time.Duration, rss int64) *result {
	p := func(name string) phase {
		return phase{name: name, calls: map[string]int{"GET compute/servers/detail": calls}, cpu: cpu}
	}
	return &result{nodes: nodes, services: 500, rss: rss, peak: rss, phases: []phase{p(initialized), p(cycle)}}
}

func TestBoundsFailWhenCostsGrow(t *testing.T) {
	small := sample(1000, 5, time.Second, 1e8)
	for name, tt := range map[string]struct {
		large *result
		want  string
	}{
		"held":         {sample(5000, 20, 5*time.Second, 2e8), ""},
		"calls":        {sample(5000, 41, 5*time.Second, 2e8), "5000 new Nodes cost 41 calls of the cloud, more than 40"},
		"calls grow":   {sample(15000, 90, 15*time.Second, 2e8), "calls a thousand Nodes"},
		"CPU grows":    {sample(15000, 30, 60*time.Second, 2e8), "ms of CPU a Node"},
		"memory":       {sample(5000, 20, 5*time.Second, 251e6), "more than 250"},
		"large memory": {sample(15000, 30, 15*time.Second, 9e8), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := check([]*result{small, tt.large})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestPlotIsXMLWithAllLabels(t *testing.T) {
	r := &report{results: []*result{sample(1000, 5, time.Second, 1e8), sample(5000, 20, 5*time.Second, 2e8)}}
	svg := r.plot()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{">Nodes<", ">Calls of the cloud<", ">CPU time a Node, ms<", ">Memory, MB<", ">1000<", ">5000<", ">" + initialized + "<", ">at rest<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the plot lacks %s", want)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error("the plot has no numbers")
	}
}

func TestNumbersMustRise(t *testing.T) {
	var n numbers
	if err := n.Set("5,1"); err == nil {
		t.Error("5,1 is accepted")
	}
	if err := n.Set("100,500"); err != nil || n.String() != "100,500" {
		t.Errorf("%v, %s", err, n.String())
	}
}
