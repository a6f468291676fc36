package openstack

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
)

// TestTheSimulatorIsLikeTheRealCloud: what OCCM has done in the real cloud it has done in the simulator, but for what
// the list names.
func TestTheSimulatorIsLikeTheRealCloud(t *testing.T) {
	explained := map[string]bool{}
	for _, g := range script.RealGroups() {
		t.Run(g.Name, func(t *testing.T) {
			for _, s := range g.Scenarios {
				if s.Name == "" || len(g.Only(s.Name).Scenarios) != 1 {
					t.Errorf("scenario %q is in no group, or twice in this one", s.Name)
				}
			}
			simulated, err := recording.Read(recording.SimulatorLike(recordings), g.Name)
			if err != nil {
				t.Fatal(err)
			}
			real, err := recording.Read(filepath.Join(recordings, recording.Real), g.Name)
			if err != nil {
				t.Fatal(err)
			}
			if real.Cloud == "" || simulated.Cloud != "" || real.Manager != simulated.Manager {
				t.Errorf("recordings of %q by %s and of %q by %s", simulated.Cloud, simulated.Manager, real.Cloud, real.Manager)
			}
			rest, named, err := difference.CompareRecordings(&g, simulated, real)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range named {
				explained[n] = true
			}
			for _, d := range rest {
				t.Error(d)
			}
		})
	}
	if t.Failed() {
		return // what is idle tells only a whole run
	}
	for _, a := range difference.RealDifferences() {
		if !explained[a.Name] {
			t.Errorf("no difference is any more as the list says: %s", a.Name)
		}
	}
}

// A list that explains too much, or recordings that differ without anyone seeing it, would make that test worthless.
func TestRecordingsThatDifferAreSeen(t *testing.T) {
	g := script.RealGroups()[0]
	simulated, err := recording.Read(recording.SimulatorLike(recordings), g.Name)
	if err != nil {
		t.Fatal(err)
	}
	real, err := recording.Read(recording.SimulatorLike(recordings), g.Name)
	if err != nil {
		t.Fatal(err)
	}
	if rest, _, err := difference.CompareRecordings(&g, simulated, real); err != nil || len(rest) > 0 {
		t.Fatalf("a recording differs from itself: %v, %v", rest, err)
	}
	real.State("c-serial-plain", 1).LoadBalancers[0]["provider"] = "ovn"
	rest, _, err := difference.CompareRecordings(&g, simulated, real)
	want := `c-serial-plain, change 1: lb[kube_service_kubernetes_c-serial-plain_a].provider: the simulator has "amphora", the real cloud "ovn"`
	if err != nil || !slices.Contains(rest, want) {
		t.Errorf("got %v, %v, want %s", rest, err, want)
	}
	real.Digest = ""
	if _, _, err := difference.CompareRecordings(&g, simulated, real); err == nil {
		t.Error("a recording of another group is compared")
	}
}
