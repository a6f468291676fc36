package aws

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/play"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/compare"
)

const recordings = "testdata"

// patience is how long ours may change nothing before it is held to be done although something differs; it is not waited for when
// all is well. Ours asks for what is on a Node's status only when its answers are older than 30 s.
var patience = flag.Duration("patience", 45*time.Second, "how long ours may be idle before differences are believed")

// How long nothing may differ for a phase to be over: ours looks at Nodes and routes each second or two, at Services at once.
const (
	calm         = 1500 * time.Millisecond
	calmServices = 500 * time.Millisecond
)

// replay is one group, played with ours.
type replay struct {
	*play.Player
	t        *testing.T
	plane    *controlplane.ControlPlane
	recorded *recording.Recording
	observer *differential.Observer
	calm     time.Duration
	// failures are the scenarios at which ours has failed, by phase, or that had no address at its end.
	failures map[string][]bool
}

func newReplay(t *testing.T, g *script.Group) *replay {
	t.Helper()
	recorded, err := recording.Read(recordings, g.Name)
	if err != nil {
		t.Fatal(err)
	}
	place, err := play.Make(g.World)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(place.Sim.Close)
	r := &replay{t: t, recorded: recorded, calm: calm, failures: map[string][]bool{}}
	if slices.Contains(g.Controllers, "service-lb-controller") {
		r.calm = calmServices
	}
	r.plane = planes.Take(t)
	r.Player = play.New(g, place, r.plane.Client)
	r.observer = &differential.Observer{Client: r.Client}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Clean(ctx); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	r.must(r.Prepare(t.Context()))
	return r
}

func (r *replay) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestFromScratch: ours ends where the existing manager has ended, but for the differences that the list names.
func TestFromScratch(t *testing.T) {
	sieve, err := compare.NewSieve(difference.Differences())
	if err != nil {
		t.Fatal(err)
	}
	var found report
	t.Cleanup(func() { found.end(t, sieve) })
	for _, g := range script.Groups() {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			r := newReplay(t, &g)
			startOurs(t, r.plane, r.Place, &g)
			for i := range g.Phases() {
				for _, d := range found.count(sieve, r.phase(i, sieve)) {
					t.Error(d)
				}
			}
		})
	}
}

// report is what is left of all groups. Its methods may be called concurrently.
type report struct {
	mu    sync.Mutex
	lines []string
}

// count notes the differences of a phase that are meant to be, and returns the others.
func (r *report) count(sieve *compare.Sieve, all []compare.Difference) []compare.Difference {
	r.mu.Lock()
	defer r.mu.Unlock()
	rest := sieve.Rest(all, true)
	for _, d := range rest {
		r.lines = append(r.lines, d.String())
	}
	return rest
}

// end writes what is left to the file that $DIFFERENCES names, and complains of differences that are none any more.
func (r *report) end(t *testing.T, sieve *compare.Sieve) {
	if file := os.Getenv("DIFFERENCES"); file != "" {
		slices.Sort(r.lines)
		if err := os.WriteFile(file, []byte(strings.Join(r.lines, "\n")+"\n"), 0o600); err != nil {
			t.Error(err)
		}
	}
	if t.Failed() || flag.Lookup("test.run").Value.String() != "" {
		return // what is idle tells only a whole run
	}
	for _, name := range sieve.Idle() {
		t.Errorf("no difference is any more as the list says: %s", name)
	}
}

// phase goes through a phase, and returns the differences at its end, those that are meant to be with them.
func (r *replay) phase(number int, sieve *compare.Sieve) []compare.Difference {
	r.t.Helper()
	ctx := r.t.Context()
	before, err := r.observer.Mark(ctx)
	r.must(err)
	_, err = r.Phase(ctx, number)
	r.must(err)
	since, same, end := time.Now(), time.Now(), time.Now().Add(2**patience)
	last := ""
	for {
		states := r.states(before)
		all := r.differences(number, states)
		rest := sieve.Rest(all, false)
		if now := snapshot.Compact(states); now != last {
			last, since = now, time.Now()
		}
		if len(rest) > 0 {
			same = time.Now()
		}
		if time.Since(same) >= r.calm || time.Since(since) > *patience || time.Now().After(end) {
			for name, s := range states {
				r.failures[name] = append(r.failures[name], s.Failed() || !s.Served())
			}
			r.logOutcomes(before, rest)
			return all
		}
		select {
		case <-ctx.Done():
			r.t.Fatal(ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// logOutcomes tells how often the Services that differ have been worked on before the phase and since.
func (r *replay) logOutcomes(before differential.Mark, rest []compare.Difference) {
	r.t.Helper()
	now, err := r.observer.Mark(r.t.Context())
	r.must(err)
	for key, is := range now {
		if slices.ContainsFunc(rest, func(d compare.Difference) bool { return d.Scenario == key.Namespace }) {
			r.t.Logf("%s: %+v, before the phase %+v", key, is, before[key])
		}
	}
}

func (r *replay) states(before differential.Mark) map[string]snapshot.State {
	r.t.Helper()
	now, err := r.observer.Mark(r.t.Context())
	r.must(err)
	states, err := r.Read(r.t.Context(), before, now)
	r.must(err)
	for name, s := range states {
		states[name], err = s.Plain()
		r.must(err)
	}
	return states
}

// differences are all, those that are meant to be with them.
func (r *replay) differences(number int, states map[string]snapshot.State) (out []compare.Difference) {
	if number < len(r.recorded.Shared) {
		difference.Compare(r.recorded.Shared[number], states[""], func(path, theirs, ours string) {
			out = append(out, compare.Difference{Scenario: "shared", Phase: r.Group.Phases()[number], Path: path, Theirs: theirs, Ours: ours})
		})
	}
	for _, name := range r.Group.Names() {
		difference.Compare(r.recorded.State(name, number), states[name], func(path, theirs, ours string) {
			if strings.HasSuffix(path, ".failed") && r.stillFails(name, number, states[name]) {
				return
			}
			out = append(out, compare.Difference{Scenario: name, Phase: r.Group.Phases()[number], Path: path, Theirs: theirs, Ours: ours,
				Failed: r.recorded.Failed(name, number)})
		})
	}
	return out
}

// stillFails reports whether both have failed at a scenario since its Services changed: whether they have tried again within the
// phase does not matter then.
func (r *replay) stillFails(name string, number int, now snapshot.State) bool {
	theirs, ours := false, now.Failed() || !now.Served()
	for i := r.Group.Changed(name, number); i <= number; i++ {
		theirs = theirs || r.recorded.State(name, i).Failed()
		ours = ours || i < len(r.failures[name]) && r.failures[name][i]
	}
	return theirs && ours
}
