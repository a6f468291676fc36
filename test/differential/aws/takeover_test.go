package aws

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/play"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/compare"
)

// TestTakeover: started on what the existing manager has left, ours changes nothing but what the list names. What the existing
// manager has failed at it may put right, but takes away nothing that the list does not name, and no address goes.
func TestTakeover(t *testing.T) {
	exceptions, err := compare.NewExceptions(difference.AtTakeover())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("groups", func(t *testing.T) {
		for _, g := range script.Groups() {
			for _, i := range g.Takeovers() {
				part := changed(t, &g, i)
				if len(part.Scenarios) == 0 {
					continue
				}
				t.Run(g.Name+"/"+strings.ReplaceAll(g.Phases()[i], " ", "-"), func(t *testing.T) {
					t.Parallel()
					newReplay(t, part).takeover(i, exceptions)
				})
			}
		}
	})
	if t.Failed() || flag.Lookup("test.run").Value.String() != "" {
		return // not all was taken over
	}
	for _, name := range exceptions.Idle() {
		t.Errorf("nothing at a takeover is any more as the list says: %s", name)
	}
}

// changed is what of a group a phase has changed: the rest is taken over as it was before. Nodes are few, and stay all.
func changed(t *testing.T, g *script.Group, phase int) *script.Group {
	t.Helper()
	recorded, err := recording.Read(recordings, g.Name)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range g.Scenarios {
		if len(s.Nodes) > 0 || recorded.Changed(s.Name, phase) {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 || phase >= len(recorded.Shared) {
		return g.Part(names...)
	}
	for key := range recorded.Shared[phase]["rule"] { // it stays as long as a Service has its range
		_, from, _ := strings.Cut(key, " from ")
		has := func(name string) bool {
			for rule := range recorded.State(name, phase)["rule"] {
				if strings.HasSuffix(rule, " from "+from) {
					return true
				}
			}
			return false
		}
		if slices.ContainsFunc(names, has) {
			continue
		}
		if i := slices.IndexFunc(g.Names(), has); i >= 0 {
			names = append(names, g.Names()[i])
		}
	}
	return g.Part(names...)
}

// takes are calls that take something away.
var takes = regexp.MustCompile(`^\S+ (Delete|Deregister|Revoke|Remove|Detach)`)

func (r *replay) takeover(number int, exceptions *compare.Exceptions) {
	t := r.t
	t.Helper()
	ctx := t.Context()
	services, err := r.Restore(ctx, r.recorded, number)
	r.must(err)
	before, err := r.observer.Mark(ctx)
	r.must(err)
	then := r.states(before)
	r.faithful(number, then)
	asked := len(r.Place.Sim.Requests())
	ours := startOurs(t, r.plane, r.Place, r.Group)
	r.settled(before, services)
	r.must(ours.Stop())
	now := r.states(before)
	calls := r.By(r.Place.Sim.Requests()[asked:], false)
	complain := func(scenario, format string, args ...any) {
		text := scenario + ", " + r.Group.Phases()[number] + ": " + fmt.Sprintf(format, args...)
		if !exceptions.Excuses(text) {
			t.Error(text)
		}
	}
	for _, name := range append([]string{""}, r.Group.Names()...) {
		failed := r.recorded.Failed(name, number)
		for _, c := range calls[name] {
			if !failed || takes.MatchString(c) {
				complain(name, "%s", c)
			}
		}
		known := r.said(name, number)
		for _, e := range warnings(now[name]) {
			if !failed && !slices.Contains(known, e) {
				complain(name, "%s", e)
			}
		}
		difference.Compare(then[name].InAPI(), now[name].InAPI(), func(path, was, is string) {
			if !failed || strings.HasSuffix(path, ".ingress") && was != "" {
				complain(name, "%s: was %s, is %s", path, was, is)
			}
		})
	}
}

// said are the Warnings that the existing manager has published by the end of a phase.
func (r *replay) said(scenario string, phase int) (out []string) {
	for i := range phase + 1 {
		out = append(out, warnings(r.recorded.State(scenario, i))...)
	}
	return out
}

// warnings are the Warnings about the load balancers of a scenario's Services.
func warnings(s snapshot.State) (out []string) {
	for name, o := range s["service"] {
		service, _ := o.(snapshot.Object)
		events, _ := service["events"].(snapshot.Object)
		for reason := range events {
			if strings.HasPrefix(reason, "!") && strings.Contains(reason, "LoadBalancer") { // the API server has some of its own
				out = append(out, "service."+name+" has a Warning "+reason[1:])
			}
		}
	}
	return out
}

// faithful fails the test unless what is restored is what was recorded.
func (r *replay) faithful(number int, states map[string]snapshot.State) {
	r.t.Helper()
	for _, name := range r.Group.Names() {
		difference.Compare(r.recorded.State(name, number), states[name], func(path, was, is string) {
			if !strings.HasSuffix(path, ".failed") {
				r.t.Fatalf("%s: restored is something else: %s: recorded is %s, restored %s", name, path, was, is)
			}
		})
	}
}

// settled waits until ours has worked on all and does nothing more.
func (r *replay) settled(before differential.Mark, services []types.NamespacedName) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	r.observer.Look = r.Look
	r.observer.Calls = func() (int, int) { return play.Calls(r.Place.Sim.Requests()) }
	r.observer.Quiet = 300 * time.Millisecond
	if len(services) == 0 {
		r.observer.Quiet = 2500 * time.Millisecond // Nodes and routes are looked at each second or two
	}
	r.must(r.observer.Settled(ctx, before, services))
}
