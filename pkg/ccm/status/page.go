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

// policy lets the page do nothing: it has no scripts, and loads nothing.
const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// maxRequests is how many requests are answered at a time: each costs a look at all objects.
const maxRequests = 4

const head = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Isthmus status</title>
<style>
body { font-family: sans-serif; margin: 2em; color: #222; background: #fff; }
h2 { font-size: 1.1em; margin: 1.4em 0 0.4em; }
table { border-collapse: collapse; }
th, td { border: 1px solid #bbb; padding: 0.2em 0.6em; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
th { background: #eee; }
td.waits { background: #ffe9b3; }
p { margin: 0.3em 0; }
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

	objects(m, "Nodes", &s.Nodes, "Provider ID")
	objects(m, "Load balancers", &s.LoadBalancers, "Address")
	objects(m, "Routes", &s.Routes, "Pod CIDRs")
	objects(m, "Volumes", &s.Volumes, "Zone, region")
	m.element("h2", fmt.Sprintf("Queues: %d", s.Queues.Total))
	table(m, &s.Queues, []string{"Queue", "Waiting", "Longest under way"}, func(q Queue) (bool, []string) {
		return q.Depth > 0, []string{q.Name, strconv.Itoa(q.Depth), seconds(q.LongestSeconds)}
	})
	m.element("h2", fmt.Sprintf("Requests to the cloud: %d throttled", s.Traffic.Waiting))
	table(m, &s.Traffic, []string{"Family", "Place", "Last second", "State"}, func(f Family) (bool, []string) {
		return f.ShutUntil != nil || f.Limit > 0, []string{f.Family, f.Place, strconv.Itoa(f.PerSecond), f.State()}
	})
	m.element("h2", fmt.Sprintf("Last errors: %d", s.Errors.Total))
	table(m, &s.Errors, []string{"Time", "Object", "Reason", "Message", "Times"}, func(e Error) (bool, []string) {
		return false, []string{instant(e.Time), e.Object, e.Reason, e.Message, strconv.Itoa(e.Count)}
	})
	m.element("h2", "Webhooks")
	table(m, &s.Webhooks, []string{"Metric", "Labels", "Value"}, metricCells)
	m.element("h2", "Counted")
	table(m, &s.Metrics, []string{"Metric", "Labels", "Value"}, metricCells)
	m.b.WriteString("</body>\n</html>\n")
	return m.b.String()
}

func objects(m *markup, title string, l *List[Object], detail string) {
	named := []string{"Name", detail, "State"}
	m.element("h2", fmt.Sprintf("%s: %d, %d wait", title, l.Total, l.Waiting))
	table(m, l, named, func(o Object) (bool, []string) {
		name := o.Name
		if o.Namespace != "" {
			name = o.Namespace + "/" + o.Name
		}
		return o.Waits, []string{name, o.Detail, o.State}
	})
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

// table writes a list, each item as a row of cells, marked where it waits.
func table[T any](m *markup, l *List[T], headings []string, cells func(T) (waits bool, texts []string)) {
	if len(l.Items) == 0 {
		m.element("p", "none")
		return
	}
	m.b.WriteString("<table>\n")
	m.row("th", headings, false)
	for _, item := range l.Items {
		waits, texts := cells(item)
		m.row("td", texts, waits)
	}
	m.b.WriteString("</table>\n")
	if l.More > 0 {
		m.element("p", fmt.Sprintf("and %d more", l.More))
	}
}

func (m *markup) row(cell string, texts []string, waits bool) {
	open := "<" + cell + ">"
	if waits {
		open = "<" + cell + ` class="waits">`
	}
	m.b.WriteString("<tr>")
	for _, t := range texts {
		m.b.WriteString(open + html.EscapeString(t) + "</" + cell + ">")
	}
	m.b.WriteString("</tr>\n")
}
