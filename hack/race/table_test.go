package main

import (
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/hack/rig"
)

func sample(contenders ...string) *table {
	t := &table{
		options: &options{size: size{nodes: 500, services: 14}, delays: delays{call: 20 * time.Millisecond, pending: 2 * time.Second}},
		kind:    cloudKinds()[0], about: "a cloud", plane: "v1.2.3",
	}
	for k, name := range contenders {
		t.contenders = append(t.contenders, &contender{name: name, version: "version of " + name})
		t.used = append(t.used, rig.Usage{CPU: time.Duration(k+1) * time.Second, Memory: 100e6})
	}
	for k, s := range scenarios()[:3] {
		r := row{scenario: s, title: s.title(t.size)}
		for c := range contenders {
			r.results = append(r.results, result{time: time.Duration((k+1)*(1+9*c)) * time.Second, cloud: calls{reads: 4 * (1 + c), writes: 2 * k}, writes: 1000 + 500*c})
		}
		t.rows = append(t.rows, r)
	}
	return t
}

func TestTableOfTwo(t *testing.T) {
	got := sample("ours", "OCCM").markdown()
	for _, want := range []string{
		"|  | time: ours | OCCM | ratio | cloud reads + writes: ours | OCCM | ratio | API writes: ours | OCCM | ratio |\n|---|---:|---:|",
		"| 14 Services × 2 ports created at once | 2.0 s | 20.0 s | 10× | 4 + 2 | 8 + 2 | 1.7× | 1000 | 1500 | 1.5× |\n",
		"| CPU time, all rows but the last | 1.0 s | 2.0 s | 2.0× |\n| memory at most | 100 MB | 100 MB | 1× |\n",
		"ours 0.33, OCCM 0.33.",
		"`make race OCCM=PATH ARGS='-markdown docs/reference/race.md'`",
		"- OCCM: version of OCCM.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
}

func TestTableOfOursAloneSaysSo(t *testing.T) {
	table := sample("ours")
	for _, got := range []string{table.text(), table.markdown()} {
		if !strings.Contains(got, "Only ours") || strings.Contains(got, "ratio |") || strings.Contains(got, "OCCM") {
			t.Errorf("got:\n%s", got)
		}
	}
}

func TestTableSaysThatOthersWereAtWork(t *testing.T) {
	quiet, busy := sample("ours", "OCCM"), sample("ours", "OCCM")
	quiet.loads, busy.loads = []float64{0.1, 0.5}, []float64{0.1, 4000}
	if got := quiet.text(); strings.Contains(got, "OTHERS") {
		t.Errorf("got:\n%s", got)
	}
	if got := busy.text(); !strings.Contains(got, "the load was [0 4000]") {
		t.Errorf("got:\n%s", got)
	}
}

func TestTableOfAnIdleHourHasNoTimes(t *testing.T) {
	table := sample("ours", "OCCM")
	table.idle = 20 * time.Minute
	table.rows = []row{{title: "an hour", results: []result{{cloud: calls{reads: 10}, writes: 1}, {cloud: calls{reads: 100}, writes: 1}}}}
	for _, want := range []string{
		"# Idle hour: what is done while nothing changes\n",
		"side by side",
		"|  | cloud reads + writes: ours | OCCM | ratio | API writes: ours | OCCM | ratio |\n|---|---:|---:|---:|---:|---:|---:|\n| an hour | 10 + 0 | 100 + 0 | 10× | 1 | 1 | 1× |\n",
		"| CPU time | 1.0 s | 2.0 s | 2.0× |",
		"counted for 20m0s of it",
		"-idle 20m0s -markdown docs/reference/race-openstack-idle.md'`",
	} {
		if got := table.markdown(); !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
}

func TestTableOfAnotherCloudSaysHow(t *testing.T) {
	table := sample("ours", "AWS-CCM")
	for _, k := range cloudKinds() {
		if k.name == "aws" {
			table.kind = k
		}
	}
	want := "Made by `make race ARGS='-cloud aws -aws-ccm PATH -nodes 500 -services 14 -delay 20ms -markdown docs/reference/race-aws.md'`"
	if got := table.markdown(); !strings.HasPrefix(got, "# Race on aws: ") || !strings.Contains(got, want) {
		t.Errorf("got:\n%s", got)
	}
}
