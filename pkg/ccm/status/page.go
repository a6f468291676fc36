package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// policy lets the page do nothing: it has no scripts, and loads nothing. Its icon is empty, so that browsers ask for none.
const policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// maxRequests is how many requests are answered at a time: each costs a look at all objects. The server gives up clients that do not read.
const maxRequests = 4

// On a narrow screen each row is a block, and each cell says of which column it is.
const head = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Isthmus status</title>
<link rel="icon" href="data:,">
<style>
body { font: 15px/1.4 sans-serif; margin: 1.5em 2em; color: #222; background: #fff; overflow-wrap: anywhere; }
h1 { font-size: 1.6em; margin: 0 0 0.3em; }
h2 { font-size: 1.1em; margin: 1.4em 0 0.4em; }
p { margin: 0.3em 0; }
a { color: #0b5394; margin-right: 1em; white-space: nowrap; }
a.waits, td.waits { background: #ffe9b3; }
table { border-collapse: collapse; }
th, td { border: 1px solid #bbb; padding: 0.2em 0.6em; text-align: left; vertical-align: top; overflow-wrap: break-word; max-width: 32em; }
th { background: #eee; white-space: nowrap; }
td:last-child { max-width: none; overflow-wrap: anywhere; }
@media (max-width: 46em) {
  body { margin: 1em; }
  table, tbody, tr, td { display: block; }
  th { display: none; }
  tr { border: 1px solid #bbb; margin-bottom: 0.5em; }
  tr:first-child { border: none; margin: 0; }
  td { border: none; max-width: none; overflow-wrap: anywhere; }
  td::before { content: attr(data-column) ": "; color: #555; }
}
</style>
</head>
<body>
`

// Handler answers GET and HEAD with a snapshot of s: as JSON where the query has format=json, otherwise as a page without scripts.
func Handler(s Source) http.Handler {
	requests := make(chan struct{}, maxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this page is read-only", http.StatusMethodNotAllowed)
			return
		}
		select {
		case requests <- struct{}{}:
			defer func() { <-requests }()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many ask for the status at the same time", http.StatusServiceUnavailable)
			return
		}
		now := s.Take()
		kind, body := "text/html; charset=utf-8", ""
		if r.URL.Query().Get("format") == "json" {
			text, err := json.Marshal(now)
			if err != nil {
				http.Error(w, "the status cannot be shown", http.StatusInternalServerError)
				return
			}
			kind, body = "application/json", string(text)+"\n"
		} else {
			body = page(&now)
		}
		h := w.Header()
		h.Set("Content-Type", kind)
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		_, _ = w.Write([]byte(body)) // a client that left needs no answer
	})
}

// page is the snapshot as HTML. Package html/template would do it, but with it the linker keeps each method of the clouds' libraries
// that could be called by name, and the program is twice as large. So nothing gets into the page but by markup.
func page(s *Snapshot) string {
	m := &markup{}
	m.b.WriteString(head)
	m.element("h1", "Isthmus "+s.Version)
	role := "This replica is a standby: it does none of the work below, and the leader knows more of it."
	if s.Leads {
		role = "This replica leads."
	}
	m.element("p", role+" Leader: "+cmp.Or(s.Leader, "not known")+". Time: "+instant(s.Time))

	sections := []section{
		objects("Nodes", &s.Nodes, "Provider ID"), objects("Load balancers", &s.LoadBalancers, "Address"),
		objects("Routes", &s.Routes, "Pod CIDRs"), objects("Volumes", &s.Volumes, "Zone, region"),
		{"Queues", counted(s.Queues.Total, s.Queues.Waiting, "busy"), s.Queues.Waiting > 0, func(m *markup) {
			table(m, &s.Queues, []string{"Queue", "Waiting", "Longest under way"}, func(q Queue) (bool, []string) {
				return q.Depth > 0, []string{q.Name, strconv.Itoa(q.Depth), seconds(q.LongestSeconds)}
			})
		}},
		{"Requests to the cloud", counted(s.Traffic.Total, s.Traffic.Waiting, "throttled"), s.Traffic.Waiting > 0, func(m *markup) {
			table(m, &s.Traffic, []string{"Family", "Place", "Last second", "State"}, func(f Family) (bool, []string) {
				return f.ShutUntil != nil || f.Limit > 0, []string{f.Family, f.Place, strconv.Itoa(f.PerSecond), f.State()}
			})
		}},
		{"Last errors", strconv.Itoa(s.Errors.Total), s.Errors.Total > 0, func(m *markup) {
			table(m, &s.Errors, []string{"Time", "Times", "Object", "Reason", "Message"}, func(e Error) (bool, []string) {
				return false, []string{instant(e.Time), strconv.Itoa(e.Count), e.Object, e.Reason, e.Message}
			})
		}},
		{"Webhooks", strconv.Itoa(s.Webhooks.Total), false, func(m *markup) { table(m, &s.Webhooks, []string{"Metric", "Labels", "Value"}, metricCells) }},
		{"Counted", strconv.Itoa(s.Metrics.Total), false, func(m *markup) { table(m, &s.Metrics, []string{"Metric", "Labels", "Value"}, metricCells) }},
	}
	m.contents(sections)
	for i, part := range sections {
		fmt.Fprintf(&m.b, `<h2 id="s%d">%s</h2>`+"\n", i, html.EscapeString(part.title+": "+part.count))
		part.write(m)
	}
	m.b.WriteString("</body>\n</html>\n")
	return m.b.String()
}

// section is a part of the page. Its title is a constant.
type section struct {
	title, count string
	waits        bool
	write        func(*markup)
}

// counted says how many of all wait, in a word of their own.
func counted(all, waiting int, word string) string {
	if waiting == 0 {
		return strconv.Itoa(all)
	}
	return fmt.Sprintf("%d, %d %s", all, waiting, word)
}

func objects(title string, l *List[Object], detail string) section {
	return section{title, counted(l.Total, l.Waiting, "waiting"), l.Waiting > 0, func(m *markup) {
		table(m, l, []string{"Name", detail, "State"}, func(o Object) (bool, []string) {
			name := o.Name
			if o.Namespace != "" {
				name = o.Namespace + "/" + o.Name
			}
			return o.Waits, []string{name, o.Detail, o.State}
		})
	}}
}

func metricCells(x Metric) (bool, []string) {
	value := strconv.FormatFloat(x.Value, 'f', -1, 64)
	if strings.HasSuffix(x.Metric, "_timestamp_seconds") {
		value = "none"
		if x.Value > 0 {
			value = instant(time.Unix(int64(x.Value), 0))
		}
	}
	return false, []string{x.Metric, x.Labels, value}
}

// State says in words whether requests wait.
func (f Family) State() string {
	switch {
	case f.ShutUntil != nil:
		return "throttled until " + instant(*f.ShutUntil)
	case f.Limit > 0:
		return fmt.Sprintf("at most %.0f a second, after it throttled", f.Limit)
	}
	return "free"
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// markup is HTML that is being written. All texts that it is given are escaped; names of elements are constants.
type markup struct{ b strings.Builder }

func (m *markup) element(name, text string) {
	m.b.WriteString("<" + name + ">" + html.EscapeString(text) + "</" + name + ">\n")
}

// contents leads to the sections, and marks those in which something waits.
func (m *markup) contents(sections []section) {
	m.b.WriteString("<p>\n")
	for i, s := range sections {
		class := ""
		if s.waits {
			class = ` class="waits"`
		}
		fmt.Fprintf(&m.b, `<a href="#s%d"%s>%s</a>`+"\n", i, class, html.EscapeString(s.title+": "+s.count))
	}
	m.b.WriteString("</p>\n")
}

// table writes a list, each item as a row of cells, marked where it waits.
func table[T any](m *markup, l *List[T], headings []string, cells func(T) (waits bool, texts []string)) {
	if len(l.Items) == 0 {
		m.element("p", "none")
		return
	}
	m.b.WriteString("<table>\n")
	m.b.WriteString("<tr>")
	for _, h := range headings {
		m.b.WriteString("<th>" + html.EscapeString(h) + "</th>")
	}
	m.b.WriteString("</tr>\n")
	for _, item := range l.Items {
		waits, texts := cells(item)
		class := ""
		if waits {
			class = ` class="waits"`
		}
		m.b.WriteString("<tr>")
		for i, t := range texts {
			m.b.WriteString("<td" + class + ` data-column="` + html.EscapeString(headings[i]) + `">` + html.EscapeString(t) + "</td>")
		}
		m.b.WriteString("</tr>\n")
	}
	m.b.WriteString("</table>\n")
	if l.More > 0 {
		m.element("p", fmt.Sprintf("and %d more", l.More))
	}
}
