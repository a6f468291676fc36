package vsphere

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/script"
)

// TestTakeover: started on what the existing manager has left, ours changes no vCenter, and nothing of Nodes but what the list names.
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

// changed is what of a group has a step in a phase: the rest is taken over as it was before.
func changed(t *testing.T, g *script.Group, phase int) *script.Group {
	t.Helper()
	recorded, err := recording.Read(recordings, g.Name)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range g.Scenarios {
		if phase <= len(s.Steps) || recorded.Changed(s.Name, phase) {
			names = append(names, s.Name)
		}
	}
	return g.Part(names...)
}

// quiet is how long ours must change nothing to be done: it looks at Nodes each 200 ms or each second.
const quiet = 2500 * time.Millisecond

func (r *replay) takeover(number int, exceptions *compare.Exceptions) {
	t := r.t
	t.Helper()
	r.must(r.Restore(t.Context(), r.recorded, number))
	then := r.states()
	for _, name := range r.Group.Names() {
		difference.Compare(r.recorded.State(name, number), then[name], func(path, was, is string) {
			t.Fatalf("%s: restored is something else: %s: recorded is %s, restored %s", name, path, was, is)
		})
	}
	ours := startOurs(t, r.plane, r.Group, r.conf)
	r.settled(ours)
	r.must(ours.Stop())
	now := r.states()
	for _, name := range r.Group.Names() {
		difference.Compare(then[name], now[name], func(path, was, is string) {
			text := fmt.Sprintf("%s, %s: %s: was %s, is %s", name, r.Group.Phases()[number], path, was, is)
			if !exceptions.Excuses(text) {
				t.Error(text)
			}
		})
	}
	r.unchanged()
}

// settled waits until ours has asked the vCenters, and for each Node that waits to be initialized, and changes nothing more.
func (r *replay) settled(o *ours) {
	r.t.Helper()
	ctx := r.t.Context()
	last, since, end := "", time.Now(), time.Now().Add(*patience)
	for time.Now().Before(end) {
		now := compare.Compact(r.states())
		if now != last || !r.asked(o) {
			last, since = now, time.Now()
		}
		if time.Since(since) >= quiet {
			return
		}
		select {
		case <-ctx.Done():
			r.t.Fatal(ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
	r.t.Fatal("ours goes on and on")
}

// asked reports whether ours has asked each vCenter something, and for each Node that waits.
func (r *replay) asked(o *ours) bool {
	for _, v := range r.Place.VCenters {
		if v.Requests.Load() == 0 {
			return false
		}
	}
	nodes, err := r.plane.Client.CoreV1().Nodes().List(r.t.Context(), metav1.ListOptions{})
	r.must(err)
	for i := range nodes.Items {
		if !o.heardOf(&nodes.Items[i]) {
			return false
		}
	}
	return true
}
