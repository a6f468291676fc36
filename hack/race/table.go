package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/isthmus-cloud/isthmus/hack/rig"
)

// table is what comes out.
type table struct {
	*options
	kind       cloudKind
	contenders []*contender
	rows       []row
	// used is what each contender has used, before the second new beginning.
	used []rig.Usage
	// about is the cloud, plane the API server's version.
	about, plane string
	// loads are how many processes wanted to run when each contender began; of Linux only.
	loads []float64
}

// load is how many processes have wanted to run in the last minute.
func load() []float64 {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil
	}
	var out float64
	if _, err := fmt.Sscan(string(data), &out); err != nil {
		return nil
	}
	return []float64{out}
}

// busy says whether others were at work, "" if not.
func (t *table) busy() string {
	for _, l := range t.loads {
		if l > float64(runtime.NumCPU()) {
			return fmt.Sprintf(" OTHERS WERE AT WORK: when the contenders began, the load was %.0f, so these times are too long and only roughly comparable.", t.loads)
		}
	}
	return ""
}

type row struct {
	scenario scenario
	title    string
	results  []result // one for each contender
}

func (r *run) serverVersion() string {
	v, err := r.Client.Discovery().ServerVersion()
	if err != nil {
		return "unknown"
	}
	return v.GitVersion
}

// finish ends what r has run in, and notes what goes for all of its rows.
func (t *table) finish(r *run) error {
	t.about, t.plane = r.world.about(), r.serverVersion()
	r.stopManager()
	t.used = append(t.used, r.used)
	return r.end()
}

func seconds(r result) string { return fmt.Sprintf("%.1f s", r.time.Seconds()) }

func cloudCalls(r result) string { return fmt.Sprintf("%d + %d", r.cloud.reads, r.cloud.writes) }

func cloudBytes(r result) string { return fmt.Sprintf("%.1f MB", float64(r.cloud.bytes)/1e6) }

func apiWrites(r result) string { return fmt.Sprint(r.writes) }

// ratio is how many times as much the other one takes.
func ratio(ours, other float64) string {
	switch {
	case ours == other:
		return "1×"
	case ours == 0:
		return "∞"
	case other/ours >= 10:
		return fmt.Sprintf("%.0f×", other/ours)
	}
	return fmt.Sprintf("%.1f×", other/ours)
}

// figure is what a table tells of each contender.
type figure struct {
	title string
	text  func(result) string
	value func(result) float64
}

// figures are those of the table.
func (t *table) figures() []figure {
	out := []figure{{"cloud reads + writes", cloudCalls, func(r result) float64 { return float64(r.cloud.reads + r.cloud.writes) }}}
	if t.idle == 0 {
		out = append([]figure{{"time", seconds, func(r result) float64 { return r.time.Seconds() }}}, out...)
	}
	if t.kind.bytes {
		out = append(out, figure{"answers of the cloud", cloudBytes, func(r result) float64 { return float64(r.cloud.bytes) }})
	}
	return append(out, figure{"API writes", apiWrites, func(r result) float64 { return float64(r.writes) }})
}

// cells are a row's cells after its title.
func (t *table) cells(r row) []string {
	var out []string
	for _, figure := range t.figures() {
		for _, result := range r.results {
			out = append(out, figure.text(result))
		}
		if len(r.results) == 2 {
			out = append(out, ratio(figure.value(r.results[0]), figure.value(r.results[1])))
		}
	}
	return out
}

// head are the columns' titles after the first.
func (t *table) head() []string {
	var out []string
	for _, f := range t.figures() {
		columns := t.columns()
		columns[0] = f.title + ": " + columns[0]
		out = append(out, columns...)
	}
	return out
}

// columns are the contenders, and the ratio where there are two.
func (t *table) columns() []string {
	var out []string
	for _, c := range t.contenders {
		out = append(out, c.name)
	}
	if len(out) == 2 {
		out = append(out, "ratio")
	}
	return out
}

// usage are the rows of what the processes have used.
func (t *table) usage() [][]string {
	rows := [][]string{{"CPU time, all rows but the last"}, {"memory at most"}}
	if t.idle > 0 || t.options.rows > 0 {
		rows[0][0] = "CPU time"
	}
	for _, u := range t.used {
		rows[0] = append(rows[0], fmt.Sprintf("%.1f s", u.CPU.Seconds()))
		rows[1] = append(rows[1], fmt.Sprintf("%.0f MB", float64(u.Memory)/1e6))
	}
	if len(t.used) == 2 {
		rows[0] = append(rows[0], ratio(t.used[0].CPU.Seconds(), t.used[1].CPU.Seconds()))
		rows[1] = append(rows[1], ratio(float64(t.used[0].Memory), float64(t.used[1].Memory)))
	}
	return rows
}

// notes say what was measured, and how.
func (t *table) notes() []string {
	notes := []string{fmt.Sprintf("Cloud: %s; each call takes %s, each change of a load balancer %s. API server: kube-apiserver %s.",
		t.about, t.delays.call, t.delays.pending, t.plane)}
	for _, c := range t.contenders {
		flags := ""
		if len(c.args) > 0 {
			flags = ", with " + strings.Join(c.args, " ")
		}
		notes = append(notes, fmt.Sprintf("%s: %s%s.", c.name, c.version, flags))
	}
	if len(t.contenders) == 1 {
		notes = append(notes, "Only ours: the existing manager's path was not given.")
	}
	machine := fmt.Sprintf("Machine: %s/%s with %d cores, which the managers share with the API server and the cloud. Times depend on it, counts do not.%s",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), t.busy())
	if t.idle > 0 {
		return append(notes, fmt.Sprintf("Both did nothing at the same time, and were counted for %s of it, from %s after their start on. All run with default flags, but for "+
			"--configure-cloud-routes=false --secure-port=0.", t.idle, idleLead), machine)
	}
	if t.kind.note != "" {
		notes = append(notes, t.kind.note)
	}
	var parts []string
	for k, c := range t.contenders {
		first, last := t.rows[0].results[k], t.rows[len(t.rows)-1].results[k]
		parts = append(parts, fmt.Sprintf("%s %.2f", c.name, first.time.Seconds()/last.time.Seconds()))
	}
	if t.options.rows == 0 {
		notes = append(notes, "Time of the first row, with the default flags, over that of the last, without a limit of requests: "+strings.Join(parts, ", ")+".")
	}
	return append(notes,
		"All run with default flags, but for "+strings.Join(everybody(), " ")+".",
		"A Node that leaves is noticed at the next look, every 5 s (--node-monitor-period). Who does not give up the lease at its end waits 15 s for it at the next start.",
		"Cloud calls are counted until there are no more, logins among the reads; API writes are what kube-apiserver's audit log has, without leases.",
		machine)
}

// text is the table for a terminal.
func (t *table) text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(first string, cells []string) { fmt.Fprintf(w, "%s\t%s\n", first, strings.Join(cells, "\t")) }
	line("", t.head())
	for _, r := range t.rows {
		line(strings.ReplaceAll(r.title, "`", ""), t.cells(r))
	}
	line("", nil)
	line("the process", t.columns())
	for _, u := range t.usage() {
		line(u[0], u[1:])
	}
	_ = w.Flush() // into memory
	return b.String() + "\n" + strings.Join(t.notes(), "\n") + "\n"
}

// command is how the table is made anew.
func (t *table) command() string {
	if len(t.contenders) < 2 {
		return "make race"
	}
	if t.idle > 0 {
		return fmt.Sprintf("make race ARGS='-cloud %s -%s PATH -nodes %d -services %d -delay %s -idle %s -markdown docs/reference/race-%[1]s-idle.md'",
			t.kind.name, strings.ToLower(t.kind.other), t.size.nodes, t.size.services, t.delays.call, t.idle)
	}
	if t.kind.name != cloudKinds()[0].name {
		rows, page := "", t.kind.name
		if n := t.options.rows; n > 0 {
			rows, page = fmt.Sprintf(" -rows %d", n), fmt.Sprintf("%s-%d", page, t.size.nodes)
		}
		return fmt.Sprintf("make race ARGS='-cloud %s -%s PATH -nodes %d -services %d -delay %s%s -markdown docs/reference/race-%s.md'",
			t.kind.name, strings.ToLower(t.kind.other), t.size.nodes, t.size.services, t.delays.call, rows, page)
	}
	return "make race " + t.kind.other + "=PATH ARGS='-markdown docs/reference/race.md'"
}

// elsewhere names the cloud in titles, where it is not the first one.
func (t *table) elsewhere() string {
	if t.kind.name == cloudKinds()[0].name {
		return ""
	}
	return " on " + t.kind.name
}

// markdown is the table as a document.
func (t *table) markdown() string {
	var b strings.Builder
	title, order := "Race"+t.elsewhere()+": what the same work takes", "one after the other"
	if t.idle > 0 {
		title, order = "Idle hour"+t.elsewhere()+": what is done while nothing changes", "side by side"
	}
	fmt.Fprintf(&b, "# %s\n\n<!-- Written by hack/race. -->\n\n"+
		"The real binaries, %s, each with a real kube-apiserver and a cloud of its own. A ratio says how many times as much\n"+
		"the existing manager takes. Made by `%s`; `go run ./hack/race -help` explains.\n\n", title, order, t.command())
	line := func(first string, cells []string) {
		fmt.Fprintf(&b, "| %s | %s |\n", first, strings.Join(cells, " | "))
	}
	head := t.head()
	line("", head)
	rule := func(columns int) { b.WriteString("|---" + strings.Repeat("|---:", columns) + "|\n") }
	rule(len(head))
	for _, r := range t.rows {
		line(r.title, t.cells(r))
	}
	b.WriteString("\n")
	line("The process", t.columns())
	rule(len(t.columns()))
	for _, u := range t.usage() {
		line(u[0], u[1:])
	}
	b.WriteString("\n")
	for _, n := range t.notes() {
		b.WriteString("- " + n + "\n")
	}
	return b.String()
}
