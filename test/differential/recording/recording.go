package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
)

// State is what the cloud and the API hold of a scenario.
type State interface {
	// Failed says that not all of the scenario's Services are served.
	Failed() bool
	// None says that nothing is known: not even that nothing is there.
	None() bool
}

// Recording is what a manager has done in a group.
type Recording[S State] struct {
	// Manager is its version.
	Manager string `json:"manager"`
	// Cloud is the real cloud that it was recorded in; none for the simulator.
	Cloud string `json:"cloud,omitempty"`
	// Group is its name, and Digest that of what it was when it was recorded.
	Group  string `json:"group"`
	Digest string `json:"digest"`
	// Backs are what the manager did on what ours had left, where it is kept in the same file.
	Backs []Back `json:"backs,omitempty"`
	// Shared is what belonged to no scenario, by phase.
	Shared []S `json:"shared,omitempty"`
	// States are what the cloud and the API held, by scenario and phase; none for the same as in the phase before.
	States map[string][]S `json:"-"`
}

// Back is what the existing manager did when it was started on what ours had left after a phase.
type Back struct {
	Phase int `json:"phase"`
	// Ours are digests of what ours had left, by scenario.
	Ours map[string]string `json:"ours"`
	// Calls are those that changed the cloud, by scenario; none where it should be so.
	Calls map[string][]string `json:"calls,omitempty"`
}

// State is what a scenario held after a phase.
func (r *Recording[S]) State(scenario string, phase int) (out S) {
	states := r.States[scenario]
	for i := min(phase, len(states)-1); i >= 0; i-- {
		if !states[i].None() {
			return states[i]
		}
	}
	return out
}

// Changed says that a scenario's state after a phase is another one than before it.
func (r *Recording[S]) Changed(scenario string, phase int) bool {
	states := r.States[scenario]
	return phase < len(states) && !states[phase].None()
}

// Failed says that the manager has failed at a scenario in a phase or before: what it left is then something half done.
func (r *Recording[S]) Failed(scenario string, phase int) bool {
	for i := range phase + 1 {
		if r.State(scenario, i).Failed() {
			return true
		}
	}
	return false
}

// Add notes the scenarios' states after a phase.
func (r *Recording[S]) Add(states map[string]S, scenarios []string) {
	if r.States == nil {
		r.States = map[string][]S{}
	}
	for _, name := range scenarios {
		state := states[name]
		if list := r.States[name]; len(list) > 0 && compare.Compact(state) == compare.Compact(r.State(name, len(list)-1)) {
			var same S
			state = same
		}
		r.States[name] = append(r.States[name], state)
	}
	if shared, is := states[""]; is {
		r.Shared = append(r.Shared, shared)
	}
}

type line[S State] struct {
	Scenario string `json:"scenario"`
	States   []S    `json:"states"`
}

// Write writes a recording: a line of JSON about it, then one for each scenario.
func (r *Recording[S]) Write(dir string) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.States)) {
		if err := encoder.Encode(line[S]{name, r.States[name]}); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, r.Group+".jsonl"), b.Bytes(), 0o644) //nolint:gosec // for everyone
}

// Read reads the recording of a group.
func Read[S State](dir, group string) (*Recording[S], error) {
	data, err := os.ReadFile(filepath.Join(filepath.Clean(dir), group+".jsonl"))
	if err != nil {
		return nil, fmt.Errorf("recording of group %s: %w; make record-occm, record-aws or record-vsphere makes it", group, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	r := &Recording[S]{States: map[string][]S{}}
	if err := decoder.Decode(r); err != nil {
		return nil, fmt.Errorf("recording of group %s: %w", group, err)
	}
	for decoder.More() {
		var l line[S]
		if err := decoder.Decode(&l); err != nil {
			return nil, fmt.Errorf("recording of group %s: %w", group, err)
		}
		r.States[l.Scenario] = l.States
	}
	return r, nil
}
