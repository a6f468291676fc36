package vsphere

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/script"
)

// TestRecordings: every group is recorded as it is, by one version of the existing manager, with a state for each phase.
func TestRecordings(t *testing.T) {
	manager := ""
	for _, g := range script.Groups() {
		r, err := recording.Read(recordings, g.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		if r.Digest != script.Digest(&g) {
			t.Errorf("group %s is not what was recorded: make record-vsphere ARGS='-groups %s' CCM=PATH", g.Name, g.Name)
		}
		if manager == "" {
			manager = r.Manager
		}
		if r.Manager != manager {
			t.Errorf("group %s was recorded with %s, others with %s", g.Name, r.Manager, manager)
		}
		for _, s := range g.Scenarios {
			if n := len(r.States[s.Name]); n != len(g.Phases()) {
				t.Errorf("scenario %s has %d states, want %d", s.Name, n, len(g.Phases()))
			}
		}
		if len(r.States) != len(g.Scenarios) {
			t.Errorf("group %s: %d scenarios are recorded, want %d", g.Name, len(r.States), len(g.Scenarios))
		}
	}
}
