package aws

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/test/differential/aws/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
	"github.com/isthmus-cloud/isthmus/test/differential/compare"
)

// TestTakingBack: the existing manager, started on what ours had left, did nothing but what the list names; where it has failed
// from scratch, it tries again.
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
		back, err := recording.ReadBack(recordings, g.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(back.Phases) != len(g.Backs()) || back.Digest != script.Digest(&g) || back.Manager != r.Manager {
			t.Errorf("group %s is not what the existing manager was started on, or another version of it was: make record-aws ARGS='-back -groups %s' CCM=PATH",
				g.Name, g.Name)
		}
		for _, b := range back.Phases {
			for name, did := range b.Did {
				for _, d := range did {
					if r.Failed(name, b.Phase) || list.Excuses(name+", "+g.Phases()[b.Phase]+": "+d) {
						continue
					}
					t.Errorf("%s, %s: the existing manager did %s", name, g.Phases()[b.Phase], d)
				}
			}
		}
	}
	for _, name := range list.Idle() {
		t.Errorf("the existing manager does nothing any more as the list says: %s", name)
	}
}
