package openstack

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/compare"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/play"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
	"github.com/isthmus-cloud/isthmus/test/golden"
	"github.com/isthmus-cloud/isthmus/test/inprocess"
)

const recordings = "testdata"

// replay is one group, played with ours.
type replay struct {
	*play.Player
	t        *testing.T
	sim      *ossim.Sim
	plane    *controlplane.ControlPlane
	recorded *recording.Recording
	observer *differential.Observer
	// states are those last read.
	states map[string]*snapshot.State
	// exceptions are of a takeover.
	exceptions *compare.Exceptions
}

func newReplay(t *testing.T, g *script.Group) *replay {
	t.Helper()
	recorded, err := recording.Read(recordings, g.Name)
	if err != nil {
		t.Fatal(err)
	}
	if recorded.Digest != script.Digest(g) {
		t.Fatalf("group %s is another one than the recorded one: make record-occm ARGS='-groups %s' OCCM=PATH records it anew", g.Name, g.Name)
	}
	sim, err := play.Simulator(g.World)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	place, err := play.Make(t.Context(), g.World, sim, g.Servers())
	if err != nil {
		t.Fatal(err)
	}
	r := &replay{t: t, sim: sim, plane: planes.Take(t), recorded: recorded}
	r.Player = play.New(g, place, r.plane.Client)
	r.observer = &differential.Observer{Client: r.Client, Quiet: 200 * time.Millisecond, Calls: func() (int, int) { return play.Calls(sim.Requests()) }}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if err := r.Clean(ctx); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return r
}

// start starts ours with the group's cloud.conf.
func (r *replay) start() *inprocess.Manager {
	r.t.Helper()
	conf, err := r.Conf()
	if err != nil {
		r.t.Fatal(err)
	}
	return startOurs(r.t, r.plane, conf, r.Group.Cluster())
}

// must fails the test on an error.
func (r *replay) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// patience is how long ours may ask the cloud nothing before it is held to be done although
// something differs; it is not waited for when all is well. The controller's first pause between two attempts is 5 s.
var patience = flag.Duration("patience", 30*time.Second, "how long ours may be idle before differences are believed")

// report collects what is left of all groups.
var report struct {
	mu    sync.Mutex
	lines []string
}

// TestFromScratch: ours ends where OCCM has ended, but for the differences that the list names.
func TestFromScratch(t *testing.T) {
	sieve, err := difference.NewSieve()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	played := 0
	t.Run("groups", func(t *testing.T) {
		for _, g := range script.Groups() {
			t.Run(g.Name, func(t *testing.T) {
				t.Parallel()
				r := newReplay(t, &g)
				found := r.fromScratch(sieve)
				mu.Lock()
				played++
				mu.Unlock()
				for _, all := range found {
					mu.Lock()
					rest := sieve.Count(all)
					mu.Unlock()
					for _, d := range rest {
						t.Error(d)
					}
				}
			})
		}
	})
	writeReport(t)
	if t.Failed() || played != len(script.Groups()) {
		return // what is idle and how many they are tells only a whole run
	}
	for _, d := range sieve.Idle() {
		t.Errorf("no difference is any more as the list says: %s", d)
	}
	results := sieve.Results()
	results.Manager, results.Back = recorded(t)
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, filepath.Join(recordings, "results.golden"), string(data)+"\n")
}

// fromScratch plays the group and returns the differences at the end of each phase.
func (r *replay) fromScratch(sieve *difference.Sieve) [][]difference.Difference {
	r.t.Helper()
	ctx := r.t.Context()
	r.must(r.Prepare(ctx))
	r.start()
	var out [][]difference.Difference
	for i, phase := range r.Group.Phases() {
		before, err := r.observer.Mark(ctx)
		r.must(err)
		_, err = r.Phase(ctx, i)
		r.must(err)
		r.passed(i)
		out = append(out, r.differences(i, phase, before, sieve))
		for _, stray := range r.strays(i) {
			r.t.Error(stray)
		}
	}
	return out
}

// strays says where ours leaves something else than when OCCM was started on it: only else holds what OCCM did then.
func (r *replay) strays(phase int) (out []string) {
	changed := map[string]bool{} // by OCCM, in the cloud or, where it fails, at least in the API
	for _, b := range r.recorded.Backs {
		for name, digest := range b.Ours {
			changed[name] = changed[name] || b.Phase < phase && (len(b.Calls[name]) > 0 || r.recorded.Failed(name, b.Phase))
			if b.Phase != phase || changed[name] {
				continue
			}
			if got, err := r.states[name].Digest(); err != nil || got != digest {
				out = append(out, fmt.Sprintf("%s, %s: ours leaves something else than when OCCM was started on it (%v): make record-occm ARGS='-back -groups %s' OCCM=PATH tries that again",
					name, r.Group.Phases()[phase], err, r.Group.Name))
			}
		}
	}
	return out
}

// differences waits until there are none but those meant to be, and no strays; after a while it returns those left.
func (r *replay) differences(number int, phase string, before differential.Mark, sieve *difference.Sieve) []difference.Difference {
	r.t.Helper()
	ctx := r.t.Context()
	asked, since := 0, time.Now()
	for {
		if n := len(r.sim.Requests()); n > asked { // since the last Read
			since = time.Now()
		}
		now, err := r.observer.Mark(ctx)
		r.must(err)
		states, err := r.Read(ctx, before, now)
		r.must(err)
		r.states = states
		var all []difference.Difference
		for _, name := range r.Group.Names() {
			d, err := difference.Compare(name, phase, r.recorded.State(name, number), states[name])
			r.must(err)
			reached := difference.ReachedBy(r.recorded, name, number, states[name])
			if reached == difference.Neither { // whether it was tried again within the phase does not matter
				d = slices.DeleteFunc(d, func(d difference.Difference) bool { return strings.HasSuffix(d.Path, ".failed") })
			}
			for i := range d {
				d[i].Reached = reached
			}
			all = append(all, d...)
		}
		asked = len(r.sim.Requests())
		rest := sieve.Rest(all)
		if len(rest)+len(r.strays(number)) == 0 || time.Since(since) > *patience {
			noteRest(r.Group.Name, rest)
			return all
		}
		pause(r.t, 100*time.Millisecond)
	}
}

func noteRest(group string, rest []difference.Difference) {
	report.mu.Lock()
	defer report.mu.Unlock()
	for _, d := range rest {
		report.lines = append(report.lines, group+": "+d.String())
	}
}

// writeReport writes what is not explained to the file that $DIFFERENCES names.
func writeReport(t *testing.T) {
	t.Helper()
	file := os.Getenv("DIFFERENCES")
	if file == "" {
		return
	}
	slices.Sort(report.lines)
	if err := os.WriteFile(file, []byte(strings.Join(report.lines, "\n")+"\n"), 0o600); err != nil {
		t.Error(err)
	}
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	case <-time.After(d):
	}
}

// last is a Service of no scenario that changes after all others in each phase: once ours has
// worked on it, it has at least begun with those before.
var last = types.NamespacedName{Namespace: "default", Name: "last"}

// lastNodePort is the port of no other Service.
const lastNodePort = 32767

// passed waits until ours has come to the end of its queue.
func (r *replay) passed(phase int) {
	r.t.Helper()
	ctx := r.t.Context()
	before, err := r.observer.Mark(ctx)
	r.must(err)
	services := r.Client.CoreV1().Services(last.Namespace)
	port := fmt.Sprintf(`[{"name":"p","port":%d,"nodePort":%d}]`, 1000+phase, lastNodePort)
	_, err = services.Patch(ctx, last.Name, types.MergePatchType, []byte(`{"spec":{"ports":`+port+`}}`), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = services.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: last.Namespace, Name: last.Name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "p", Port: int32(1000 + phase), NodePort: lastNodePort}}},
		}, metav1.CreateOptions{})
	}
	r.must(err)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r.must(r.observer.Settled(ctx, before, []types.NamespacedName{last}))
}

// recorded are the version that all recordings have, and how many states of ours they tell of.
func recorded(t *testing.T) (version string, back int) {
	t.Helper()
	for _, g := range script.Groups() {
		r, err := recording.Read(recordings, g.Name)
		if err != nil {
			t.Fatal(err)
		}
		if version != "" && r.Manager != version {
			t.Errorf("group %s was recorded with %s, others with %s", g.Name, r.Manager, version)
		}
		version = r.Manager
		for _, b := range r.Backs {
			back += len(b.Ours)
		}
	}
	return version, back
}
