package vsphere

import (
	"context"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential/compare"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/play"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/script"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/snapshot"
)

const recordings = "testdata"

// patience is how long ours may change nothing before it is held to be done although something differs; it is not waited for when
// all is well. Ours asks for what is on a Node's status only when its answers are older than 30 s.
var patience = flag.Duration("patience", 2*time.Minute, "how long ours may be idle before differences are believed")

// calm is how long nothing may differ for a phase to be over: ours looks at Nodes each 200 ms or each second. At the end there is nothing
// more to see.
const calm = 1200 * time.Millisecond

// replay is one group, played with ours.
type replay struct {
	*play.Player
	t        *testing.T
	plane    *controlplane.ControlPlane
	recorded *recording.Recording
	conf     string
}

func newReplay(t *testing.T, g *script.Group) *replay {
	t.Helper()
	recorded, err := recording.Read(recordings, g.Name)
	if err != nil {
		t.Fatal(err)
	}
	r := &replay{t: t, recorded: recorded, plane: planes.Take(t)}
	place, err := play.Make(t.Context(), &g.World)
	r.must(err)
	r.Player = play.New(g, place, r.plane.Client)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(r.Clean(ctx), place.Close()); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	r.must(r.Prepare(t.Context()))
	r.conf, err = r.Conf()
	r.must(err)
	return r
}

func (r *replay) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestFromScratch: ours ends where the existing manager has ended, but for the differences that the list names, and changes no vCenter.
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
			startOurs(t, r.plane, &g, r.conf)
			for i := range g.Phases() {
				for _, d := range found.count(sieve, r.phase(i, sieve)) {
					t.Error(d)
				}
			}
			r.unchanged()
		})
	}
}

// unchanged complains of calls that have changed a vCenter.
func (r *replay) unchanged() {
	r.t.Helper()
	if changes := r.Place.Changes(); len(changes) > 0 {
		r.t.Errorf("ours has changed a vCenter: %q", changes)
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
	_, err := r.Phase(ctx, number)
	r.must(err)
	still := calm
	if number == len(r.Group.Phases())-1 {
		still = 0
	}
	since, same, end := time.Now(), time.Now(), time.Now().Add(2**patience)
	last := ""
	for {
		states := r.states()
		all := r.differences(number, states)
		rest := sieve.Rest(all, false)
		if now := compare.Compact(states); now != last {
			last, since = now, time.Now()
		}
		if len(rest) > 0 {
			same = time.Now()
		}
		if time.Since(same) >= still && len(rest) == 0 || time.Since(since) > *patience || time.Now().After(end) {
			return all
		}
		select {
		case <-ctx.Done():
			r.t.Fatal(ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (r *replay) states() map[string]snapshot.State {
	r.t.Helper()
	states, err := r.Read(r.t.Context(), nil, nil)
	r.must(err)
	return states
}

// differences are all, those that are meant to be with them.
func (r *replay) differences(number int, states map[string]snapshot.State) (out []compare.Difference) {
	for _, name := range r.Group.Names() {
		difference.Compare(r.recorded.State(name, number), states[name], func(path, theirs, ours string) {
			out = append(out, compare.Difference{Scenario: name, Phase: r.Group.Phases()[number], Path: path, Theirs: theirs, Ours: ours})
		})
	}
	return out
}
