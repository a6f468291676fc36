package openstack

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/play"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
)

// TestTakeover: started on what OCCM has left, ours changes nothing but the owner's mark.
func TestTakeover(t *testing.T) {
	exceptions, err := compare.NewExceptions(difference.AtTakeover())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("groups", func(t *testing.T) { takeovers(t, exceptions) })
	writeReport(t)
	if t.Failed() || flag.Lookup("test.run").Value.String() != "" {
		return // not all was taken over
	}
	for _, name := range exceptions.Idle() {
		t.Errorf("nothing at a takeover is any more as the list says: %s", name)
	}
}

func takeovers(t *testing.T, exceptions *compare.Exceptions) {
	for _, g := range script.Groups() {
		for _, i := range g.Takeovers() {
			t.Run(g.Name+"/"+strings.ReplaceAll(g.Phases()[i], " ", "-"), func(t *testing.T) {
				t.Parallel()
				r := newReplay(t, &g)
				r.exceptions = exceptions
				r.takeover(i)
			})
		}
	}
}

func (r *replay) takeover(number int) {
	t := r.t
	t.Helper()
	ctx := t.Context()
	services, err := r.Restore(ctx, r.recorded, number)
	r.must(err)
	before, err := r.observer.Mark(ctx)
	r.must(err)
	then, err := r.Read(ctx, before, before)
	r.must(err)
	var made play.Changes
	made.Watch(r.sim, true)
	ours := r.start()
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r.must(r.observer.Settled(within, before, services))
	r.must(ours.Stop())
	now, err := r.observer.Mark(ctx)
	r.must(err)
	states, err := r.Read(ctx, before, now)
	r.must(err)
	calls := made.By(r.Place.Symbols, r.Group.Names())
	for _, s := range r.Group.Scenarios {
		if !r.recorded.Changed(s.Name, number) {
			continue
		}
		r.unchanged(&s, number, then[s.Name], states[s.Name], calls[s.Name])
	}
}

// takesAddress is a call that takes an address away.
var takesAddress = regexp.MustCompile(`^((PUT|DELETE) /floatingips/|DELETE /lbaas/loadbalancers/)`)

// unchanged checks one scenario. What OCCM has not managed ours may put right, but no address goes.
func (r *replay) unchanged(s *script.Scenario, number int, then, now *snapshot.State, calls []string) {
	phase, recorded, failed := r.Group.Phases()[number], r.recorded.State(s.Name, number), r.recorded.Failed(s.Name, number)
	for _, c := range calls {
		if !failed || takesAddress.MatchString(c) {
			r.complain(fmt.Sprintf("%s, %s: taking over made the call %s", s.Name, phase, c))
		}
	}
	for name, p := range recorded.Services {
		is := now.Services[name]
		if snapshot.Compact(p.Ingress) != snapshot.Compact(is.Ingress) && len(p.Ingress) > 0 {
			r.complain(fmt.Sprintf("%s, %s: taking over published %s, and OCCM %s", s.Name, phase, snapshot.Compact(is.Ingress), snapshot.Compact(p.Ingress)))
		}
		if is.Failed && !failed {
			r.complain(fmt.Sprintf("%s, %s: ours fails at what OCCM has served: %s", s.Name, phase, strings.Join(is.Events, " ")))
		}
		if !failed {
			for k, v := range is.Annotations {
				if w, had := then.Services[name].Annotations[k]; !had || v != w {
					r.complain(fmt.Sprintf("%s, %s: taking over wrote the annotation %s: %s, which was %q", s.Name, phase, k, v, w))
				}
			}
		}
	}
}

// complain fails the test unless the list of what ours does at a takeover names it.
func (r *replay) complain(text string) {
	if r.exceptions.Excuses(text) {
		return
	}
	r.t.Error(text)
	report.mu.Lock()
	defer report.mu.Unlock()
	report.lines = append(report.lines, "TAKEOVER "+r.Group.Name+": "+text)
}
