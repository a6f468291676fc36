package status

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	ccmstatus "github.com/isthmus-cloud/isthmus/pkg/ccm/status"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
)

// maxWaiting is how many rows of one kind are shown, maxErrors how many errors: a terminal holds them.
const maxWaiting, maxErrors = 10, 5

// section is what is done and what waits of one kind of work.
type section struct {
	name           string // as Snapshot has it in JSON
	title, kind    string
	total, waiting int
	rows           []row // some of those that wait
}

type row struct{ name, state string }

func sections(s *ccmstatus.Snapshot) []section {
	families := section{name: "traffic", title: "Throttled families", kind: "family", total: s.Traffic.Total, waiting: s.Traffic.Waiting}
	for _, f := range s.Traffic.Items {
		switch {
		case f.ShutUntil != nil:
			families.rows = append(families.rows, row{f.Family + " " + f.Place, "throttled until " + f.ShutUntil.UTC().Format(time.RFC3339)})
		case f.Limit > 0:
			families.rows = append(families.rows, row{f.Family + " " + f.Place, "at most " + strconv.FormatFloat(f.Limit, 'g', 3, 64) + " a second, after it throttled"})
		}
	}
	queues := section{name: "queues", title: "Queues", kind: "queue", total: s.Queues.Total, waiting: s.Queues.Waiting}
	for _, q := range s.Queues.Items {
		if q.Depth > 0 || q.LongestSeconds > 0 {
			longest := time.Duration(max(0, min(q.LongestSeconds, 1e9)) * float64(time.Second)).Truncate(time.Second)
			queues.rows = append(queues.rows, row{q.Name, fmt.Sprintf("%d wait, one is worked on for %s", q.Depth, longest)})
		}
	}
	return []section{
		objects(section{name: "nodes", title: "Nodes", kind: "node"}, &s.Nodes),
		objects(section{name: "loadBalancers", title: "Load balancers", kind: "service"}, &s.LoadBalancers),
		objects(section{name: "routes", title: "Routes", kind: "route of node"}, &s.Routes),
		objects(section{name: "volumes", title: "Volumes", kind: "pv"}, &s.Volumes),
		families,
		queues,
	}
}

func objects(to section, l *ccmstatus.List[ccmstatus.Object]) section {
	to.total, to.waiting = l.Total, l.Waiting
	for _, o := range l.Items {
		if o.Waits {
			to.rows = append(to.rows, row{strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), o.State})
		}
	}
	return to
}

// progress is what a watch has seen.
type progress struct {
	written bool // something stands there already
	// first is how many waited of each section when the watch began; of those that wait, since is when each was seen first.
	first map[string]int
	since map[string]time.Time
}

func newProgress(r *report) *progress {
	p := &progress{first: map[string]int{}, since: map[string]time.Time{}}
	for _, s := range sections(r.Status) {
		if !slices.Contains(r.Unknown, s.name) {
			p.first[s.name] = s.waiting
		}
	}
	return p
}

func (s *section) key(w row) string { return s.name + " " + w.name }

// note takes in what waits at one time, and forgets the rest.
func (p *progress) note(r *report) {
	since := map[string]time.Time{}
	for _, s := range sections(r.Status) {
		for _, w := range s.rows {
			k := s.key(w)
			since[k] = r.Time
			if t, ok := p.since[k]; ok {
				since[k] = t
			}
		}
	}
	p.since = since
}

// table writes the report; p is nil where there was one look only.
func (r *report) table(w io.Writer, p *progress) error {
	t := output.NewTable(w)
	t.Row("Time", r.Time.Format(time.RFC3339))
	if r.Problem != "" {
		t.Row("Not known", r.Problem)
		return t.Flush()
	}
	if r.Source == fromLeader {
		t.Row("Source", "the leader")
	} else {
		t.Row("Source", "the API server, which does not know what is throttled, queued, or went wrong last")
		t.Row("Leader not asked", r.NotAsked)
	}
	t.Row("Leader", r.Leader)
	_ = t.Flush()
	_, _ = fmt.Fprintln(w)
	all := sections(r.Status)
	head := []string{"WORK", "ALL", "WAITING"}
	if p != nil {
		head = append(head, "AT THE START")
	}
	t.Row(head...)
	for _, s := range all {
		cells := []string{s.title, strconv.Itoa(s.total), strconv.Itoa(s.waiting)}
		if p != nil {
			first := "not known"
			if n, ok := p.first[s.name]; ok {
				first = strconv.Itoa(n)
			}
			cells = append(cells, first)
		}
		if slices.Contains(r.Unknown, s.name) {
			cells = []string{s.title, "not known"}
		}
		t.Row(cells...)
	}
	_ = t.Flush()
	r.waiting(w, t, all, p)
	r.errors(w, t)
	return t.Flush()
}

// waiting writes what waits, one in a row.
func (r *report) waiting(w io.Writer, t output.Table, all []section, p *progress) {
	if !slices.ContainsFunc(all, func(s section) bool { return len(s.rows) > 0 }) {
		return
	}
	_, _ = fmt.Fprintln(w)
	head := []string{"WAITING", "NAME", "STATE"}
	if p != nil {
		head = append(head, "SEEN FOR")
	}
	t.Row(head...)
	for _, s := range all {
		shown := s.rows[:min(len(s.rows), maxWaiting)]
		for _, w := range shown {
			cells := []string{s.kind, w.name, w.state}
			if p != nil {
				cells = append(cells, r.Time.Sub(p.since[s.key(w)]).Truncate(time.Second).String())
			}
			t.Row(cells...)
		}
		if more := s.waiting - len(shown); more > 0 && len(shown) > 0 {
			t.Row(s.kind, fmt.Sprintf("and %d more", more))
		}
	}
	_ = t.Flush()
}

// errors writes the last errors that the leader has told.
func (r *report) errors(w io.Writer, t output.Table) {
	last := r.Status.Errors.Items
	if len(last) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w)
	t.Row("LAST ERROR", "OBJECT", "REASON", "COUNT", "MESSAGE")
	for _, e := range last[:min(len(last), maxErrors)] {
		t.Row(e.Time.UTC().Format(time.RFC3339), e.Object, e.Reason, strconv.Itoa(e.Count), e.Message)
	}
}
