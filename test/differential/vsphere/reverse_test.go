package vsphere

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/script"
)

// TestTakingBack: the existing manager, started on what ours had left, did nothing but what the list names.
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
			t.Errorf("group %s: the existing manager was started on %d states that ours had left, want %d: make record-vsphere ARGS='-back -groups %s' CCM=PATH",
				g.Name, len(r.Backs), len(g.Backs()), g.Name)
		}
		for _, b := range r.Backs {
			for name, did := range b.Calls {
				for _, d := range did {
					if !list.Excuses(name + ", " + g.Phases()[b.Phase] + ": " + d) {
						t.Errorf("%s, %s: the existing manager did %s", name, g.Phases()[b.Phase], d)
					}
				}
			}
		}
	}
	for _, name := range list.Idle() {
		t.Errorf("the existing manager does nothing any more as the list says: %s", name)
	}
}
