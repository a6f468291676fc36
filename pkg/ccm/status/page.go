package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// policy lets the page do nothing: it has no scripts, and loads nothing.
const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const head = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Isthmus status</title>
<style>
body { font-family: sans-serif; margin: 2em; }
table { border-collapse: collapse; margin-bottom: 1em; }
th, td { border: 1px solid #bbb; padding: 0.2em 0.6em; text-align: left; overflow-wrap: anywhere; }
</style>
</head>
<body>
`

// Handler answers GET and HEAD with a snapshot of s: as JSON where the query has format=json, otherwise as a page without scripts.
func Handler(s Source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this page is read-only", http.StatusMethodNotAllowed)
			return
		}
		now := s.take(version.String())
		kind, body := "text/html; charset=utf-8", page(&now)
		if r.URL.Query().Get("format") == "json" {
			text, err := json.Marshal(now)
			if err != nil {
				http.Error(w, "the status cannot be shown", http.StatusInternalServerError)
				return
			}
			kind, body = "application/json", string(text)+"\n"
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
func page(s *snapshot) string {
	m := &markup{}
	m.b.WriteString(head)
	m.element("h1", "Isthmus "+s.Version)
	role := "This replica is a standby."
	if s.Leads {
		role = "This replica leads."
	}
	m.element("p", role+" Leader: "+cmp.Or(s.Leader, "not known"))

	m.element("h2", fmt.Sprintf("Nodes: %d, %d wait", s.Nodes.Total, s.Nodes.Waiting))
	table(m, &s.Nodes, []string{"Node", "Provider ID", "State"}, func(n node) []string { return []string{n.Name, n.ProviderID, n.State} })
	m.element("h2", fmt.Sprintf("Load balancers: %d, %d wait", s.LoadBalancers.Total, s.LoadBalancers.Waiting))
	table(m, &s.LoadBalancers, []string{"Namespace", "Service", "Address", "State"}, func(b balancer) []string { return []string{b.Namespace, b.Name, b.Address, b.State} })
	m.element("h2", "Cloud and webhooks")
	table(m, &s.Cloud, []string{"Metric", "Labels", "Value"}, func(c cloudState) []string { return []string{c.Metric, c.Labels, fmt.Sprintf("%.0f", c.Value)} })
	m.b.WriteString("</body>\n</html>\n")
	return m.b.String()
}

// markup is HTML that is being written. All texts that it is given are escaped; names of elements are constants.
type markup struct{ b strings.Builder }

func (m *markup) element(name, text string) {
	m.b.WriteString("<" + name + ">" + html.EscapeString(text) + "</" + name + ">\n")
}

// table writes a list, each item as a row of cells.
func table[T any](m *markup, l *list[T], headings []string, cells func(T) []string) {
	m.b.WriteString("<table>\n")
	m.row("th", headings)
	for _, item := range l.Items {
		m.row("td", cells(item))
	}
	m.b.WriteString("</table>\n")
	if l.More > 0 {
		m.element("p", fmt.Sprintf("and %d more", l.More))
	}
}

func (m *markup) row(cell string, texts []string) {
	m.b.WriteString("<tr>")
	for _, t := range texts {
		m.b.WriteString("<" + cell + ">" + html.EscapeString(t) + "</" + cell + ">")
	}
	m.b.WriteString("</tr>\n")
}
