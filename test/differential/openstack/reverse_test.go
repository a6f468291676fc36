package openstack

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
)

// TestTakingBack: OCCM, started on what ours had left, changed nothing but what the list names; where it
// has failed from scratch, it tries again. Whether that still is what ours leaves TestFromScratch checks.
func TestTakingBack(t *testing.T) {
	list, err := compare.NewExceptions(difference.TakingBack())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range script.Groups() {
		r, err := recording.Read(recordings, g.Name)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Backs) != len(g.Backs()) {
			t.Errorf("group %s: OCCM was started %d times on what ours left, want %d: make record-occm ARGS='-back -groups %s' OCCM=PATH", g.Name, len(r.Backs), len(g.Backs()), g.Name)
		}
		for _, b := range r.Backs {
			for scenario, calls := range b.Calls {
				for _, c := range calls {
					if !r.Failed(scenario, b.Phase) && !list.Excuses(scenario+": "+c) {
						t.Errorf("%s, %s: OCCM made the call %s", scenario, g.Phases()[b.Phase], c)
					}
				}
			}
		}
	}
	for _, name := range list.Idle() {
		t.Errorf("no call of OCCM is any more as the list says: %s", name)
	}
}
