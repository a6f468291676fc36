package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
)

// Recording is what a manager has done in a group.
type Recording struct {
	// Manager is its version.
	Manager string `json:"manager"`
	// Cloud is the real cloud that it was recorded in; none for the simulator.
	Cloud string `json:"cloud,omitempty"`
	// Group is its name, and Digest that of what it was when it was recorded.
	Group  string `json:"group"`
	Digest string `json:"digest"`
	// Backs are what the manager did on what ours had left.
	Backs []Back `json:"backs,omitempty"`
	// States are what the cloud and the API held, by scenario and phase; nil for the same as in the phase before.
	States map[string][]*snapshot.State `json:"-"`
}

// State is what a scenario held after a phase.
func (r *Recording) State(scenario string, phase int) *snapshot.State {
	states := r.States[scenario]
	for i := min(phase, len(states)-1); i >= 0; i-- {
		if states[i] != nil {
			return states[i]
		}
	}
	return &snapshot.State{}
}

// Add notes the states after a phase.
func (r *Recording) Add(states map[string]*snapshot.State, scenarios []string) {
	if r.States == nil {
		r.States = map[string][]*snapshot.State{}
	}
	for _, name := range scenarios {
		state := states[name]
		if list := r.States[name]; len(list) > 0 && snapshot.Compact(state) == snapshot.Compact(r.State(name, len(list)-1)) {
			state = nil
		}
		r.States[name] = append(r.States[name], state)
	}
}

// Write writes a recording: a line of JSON about it, then one for each scenario.
func (r *Recording) Write(dir string) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.States)) {
		if err := encoder.Encode(line{name, r.States[name]}); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, r.Group+".jsonl"), b.Bytes(), 0o644) //nolint:gosec // for everyone
}

type line struct {
	Scenario string            `json:"scenario"`
	States   []*snapshot.State `json:"states"`
}

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

// Read reads the recording of a group.
func Read(dir, group string) (*Recording, error) {
	data, err := os.ReadFile(filepath.Join(filepath.Clean(dir), group+".jsonl"))
	if err != nil {
		return nil, fmt.Errorf("recording of group %s: %w; make record-occm makes it", group, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	r := &Recording{States: map[string][]*snapshot.State{}}
	if err := decoder.Decode(r); err != nil {
		return nil, fmt.Errorf("recording of group %s: %w", group, err)
	}
	for decoder.More() {
		var l line
		if err := decoder.Decode(&l); err != nil {
			return nil, fmt.Errorf("recording of group %s: %w", group, err)
		}
		r.States[l.Scenario] = l.States
	}
	return r, nil
}

// Changed says that a scenario's state after a phase is another one than before it.
func (r *Recording) Changed(scenario string, phase int) bool {
	states := r.States[scenario]
	return phase < len(states) && states[phase] != nil
}

// Failed says that the manager has failed at a scenario in a phase or before: what it left is then
// something half done.
func (r *Recording) Failed(scenario string, phase int) bool {
	for i := range phase + 1 {
		if r.State(scenario, i).Failed() {
			return true
		}
	}
	return false
}

// Back is what OCCM did when it was started on what ours had left after a phase.
type Back struct {
	Phase int `json:"phase"`
	// Ours are digests of what ours had left, by scenario.
	Ours map[string]string `json:"ours"`
	// Calls are OCCM's that changed the cloud, by scenario; none where it should be so.
	Calls map[string][]string `json:"calls,omitempty"`
}

// Real is the folder, in testdata, of what OCCM has done in a real cloud; its folder "simulator" has the
// same scenarios in a simulator that is set up like that cloud.
const Real = "zed"

// SimulatorLike is the folder with the simulator's recordings of RealGroups.
func SimulatorLike(testdata string) string {
	return filepath.Join(testdata, Real, "simulator")
}
