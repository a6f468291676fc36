package recording

import (
	"fmt"
	"path/filepath"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/recording"
)

// Recording is what a manager has done in a group.
type Recording = recording.Recording[*snapshot.State]

// Back is what OCCM did when it was started on what ours had left after a phase.
type Back = recording.Back

// Read reads the recording of a group.
func Read(dir, group string) (*Recording, error) { return recording.Read[*snapshot.State](dir, group) }

// Of returns the group of some scenarios, with them alone, and its recording.
func Of(dir string, scenarios ...string) (*script.Group, *Recording, error) {
	for _, g := range script.Groups() {
		if only := g.Only(scenarios...); len(only.Scenarios) == len(scenarios) {
			r, err := Read(dir, g.Name)
			return only, r, err
		}
	}
	return nil, nil, fmt.Errorf("no group has the scenarios %q", scenarios)
}

// Real is the folder, in testdata, of what OCCM has done in a real cloud; its folder "simulator" has the
// same scenarios in a simulator that is set up like that cloud.
const Real = "zed"

// SimulatorLike is the folder with the simulator's recordings of RealGroups.
func SimulatorLike(testdata string) string {
	return filepath.Join(testdata, Real, "simulator")
}
