package aws

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/play"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
)

const recordings = "testdata"

// patience is how long ours may change nothing before it is held to be done although something differs; it is not waited for when
// all is well. Ours asks for what is on a Node's status only when its answers are older than 30 s. calm is how long nothing may differ for the phase to be over: ours looks at Nodes and routes each second or two.
var (
	patience = flag.Duration("patience", 45*time.Second, "how long ours may be idle before differences are believed")
	calm     = 1500 * time.Millisecond
)

// replay is one group, played with ours.
type replay struct {
	*play.Player
	t        *testing.T
	plane    *controlplane.ControlPlane
	recorded *recording.Recording
	observer *differential.Observer
}

func newReplay(t *testing.T, g *script.Group) *replay {
	t.Helper()
	recorded, err := recording.Read(recordings, g.Name)
	if err != nil {
		t.Fatal(err)
	}
	if recorded.Digest != g.Digest() {
		t.Fatalf("group %s is not what was recorded: make record-aws ARGS='-groups %s' CCM=PATH", g.Name, g.Name)
	}
	place, err := play.Make()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(place.Sim.Close)
	r := &replay{t: t, recorded: recorded, Player: &play.Player{Group: g, Place: place}}
	r.plane = planes.Take(t)
	r.Client = r.plane.Client
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
	sieve, err := difference.NewSieve(difference.Differences())
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, g := range script.Groups() {
		if !serves(&g) {
			continue
		}
		t.Run(g.Name, func(t *testing.T) {
			r := newReplay(t, &g)
			startOurs(t, r.plane, r.Place, &g)
			for i, phase := range g.Phases() {
				rest := r.phase(i, sieve)
				for _, d := range rest {
					left = append(left, d.String())
					t.Error(d)
				}
				if len(rest) > 0 && testing.Verbose() {
					t.Logf("%s: %d differences", phase, len(rest))
				}
			}
		})
	}
	if file := os.Getenv("DIFFERENCES"); file != "" {
		slices.Sort(left)
		if err := os.WriteFile(file, []byte(strings.Join(left, "\n")+"\n"), 0o600); err != nil {
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

// phase goes through a phase, and returns the differences at its end that are not meant to be.
func (r *replay) phase(number int, sieve *difference.Sieve) []difference.Difference {
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
		if time.Since(same) >= calm || time.Since(since) > *patience || time.Now().After(end) {
			return sieve.Rest(all, true)
		}
		select {
		case <-ctx.Done():
			r.t.Fatal(ctx.Err())
		case <-time.After(100 * time.Millisecond):
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
func (r *replay) differences(number int, states map[string]snapshot.State) (out []difference.Difference) {
	for _, name := range r.Group.Names() {
		difference.Compare(r.recorded.State(name, number), states[name], func(path, theirs, ours string) {
			out = append(out, difference.Difference{Scenario: name, Phase: r.Group.Phases()[number], Path: path, Theirs: theirs, Ours: ours,
				Failed: r.recorded.Failed(name, number)})
		})
	}
	return out
}
