package explain

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// report is what is said of an object.
type report struct {
	// Object is what it is about, as kubectl names it.
	Object string `json:"object"`
	Facts  []fact `json:"facts"`
	// Findings keep something from working, or the question from being answered.
	Findings []output.Finding `json:"findings"`
	Plan     plan             `json:"plan"`
	// Cloud are the objects of the cloud that belong to it.
	Cloud []owned `json:"cloud"`
	// CloudNote says why Cloud may lack something.
	CloudNote string `json:"cloudNote,omitempty"`
	// Nodes are those that a Service's load balancer has as members, and those that it has not; nil for other objects.
	Nodes []member `json:"nodes,omitempty"`
	// Events are the last warnings about it, the newest first.
	Events []event `json:"events,omitempty"`
}

// fact is one thing that is known of the object.
type fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// plan is what would be done now.
type plan struct {
	Steps []step `json:"steps"`
	// Note says what follows the steps, or why there are none.
	Note string `json:"note,omitempty"`
}

// owned is an object of the cloud.
type owned struct {
	Kind      string   `json:"kind"`
	ID        string   `json:"id"`
	Name      string   `json:"name,omitempty"`
	State     string   `json:"state,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
}

// member is a Node and what it is to a load balancer.
type member struct {
	Node   string `json:"node"`
	Member bool   `json:"member"`
	// Why it is none.
	Why string `json:"why,omitempty"`
}

// event is one of a Service's.
type event struct {
	Time    string `json:"time"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// fact adds one that has a text.
func (r *report) fact(name, text string) {
	if text != "" {
		r.Facts = append(r.Facts, fact{name, text})
	}
}

func (r *report) problem(message, next string) {
	r.Findings = append(r.Findings, output.Finding{Severity: output.Error, Message: message, Next: next})
}

// kube adds a step in the cluster.
func (r *report) kube(words, call string) {
	r.Plan.Steps = append(r.Plan.Steps, step{Words: words, Call: call, Service: inCluster})
}

// owns adds what belongs to the object in the cloud.
func (r *report) owns(o *cloud.Owned) {
	r.Cloud = append(r.Cloud, owned{Kind: o.Kind, ID: o.ID, Name: o.Name, State: o.State, Addresses: o.Addresses})
}

func (r *report) write(w io.Writer, format string) error {
	if format == output.JSON {
		r.Facts, r.Findings, r.Plan.Steps, r.Cloud = listed(r.Facts), listed(r.Findings), listed(r.Plan.Steps), listed(r.Cloud)
		return output.Encode(w, r)
	}
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s\n", output.Line(r.Object))
	rows(b, r.Facts, func(f fact) []string { return []string{"  " + f.Name, f.Text} })
	if err := output.WriteFindings(b, r.Findings); err != nil {
		return err
	}
	r.writePlan(b)
	b.WriteString("\nIn the cloud\n")
	if len(r.Cloud) == 0 && r.CloudNote == "" {
		b.WriteString("  nothing\n")
	}
	rows(b, r.Cloud, func(o owned) []string {
		return []string{"  " + o.Kind, o.ID, o.Name, o.State, strings.Join(o.Addresses, ",")}
	})
	if r.CloudNote != "" {
		fmt.Fprintf(b, "  %s\n", output.Line(r.CloudNote))
	}
	r.writeNodes(b)
	if len(r.Events) > 0 {
		b.WriteString("\nLast warnings\n")
		rows(b, r.Events, func(e event) []string { return []string{"  " + e.Time, e.Reason, e.Message} })
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *report) writePlan(b *strings.Builder) {
	b.WriteString("\nPlan\n")
	if len(r.Plan.Steps) == 0 && r.Plan.Note == "" {
		b.WriteString("  nothing to do\n")
	}
	for i, s := range r.Plan.Steps {
		fmt.Fprintf(b, "  %d. %s\n     %s\n", i+1, output.Line(s.Words), output.Line(strings.TrimSpace(s.Service+" "+s.Call)))
		if s.Body != "" {
			fmt.Fprintf(b, "     %s\n", output.Line(s.Body))
		}
	}
	if r.Plan.Note != "" {
		fmt.Fprintf(b, "  %s\n", output.Line(r.Plan.Note))
	}
}

// mostNodes is how many Nodes of a kind the text names.
const mostNodes = 20

func (r *report) writeNodes(b *strings.Builder) {
	if len(r.Nodes) == 0 {
		return
	}
	var members, others []member
	for _, m := range r.Nodes {
		if m.Member {
			members = append(members, m)
		} else {
			others = append(others, m)
		}
	}
	fmt.Fprintf(b, "\nNodes: %d of %d are members\n", len(members), len(r.Nodes))
	for _, part := range [][]member{others, members} { // what somebody looks for comes first
		rows(b, part[:min(mostNodes, len(part))], func(m member) []string { return []string{"  " + m.Node, cmp.Or(m.Why, "member")} })
		if more := len(part) - mostNodes; more > 0 {
			fmt.Fprintf(b, "  and %d more; -o json has all\n", more)
		}
	}
}

// rows writes a table without a head.
func rows[T any](b *strings.Builder, all []T, cells func(T) []string) {
	t := output.NewTable(b)
	for _, x := range all {
		t.Row(cells(x)...)
	}
	_ = t.Flush() // a builder takes all
}

// listed is not null in JSON.
func listed[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
