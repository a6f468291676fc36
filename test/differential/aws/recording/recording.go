package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
)

// Recording is what a manager has done in a group.
type Recording struct {
	// Manager is its version.
	Manager string `json:"manager"`
	// Group is its name, and Digest that of what it was when it was recorded.
	Group  string `json:"group"`
	Digest string `json:"digest"`
	// Shared is what belonged to no scenario, by phase.
	Shared []snapshot.State `json:"shared,omitempty"`
	// States are what the cloud and the API held, by scenario and phase; nil for the same as in the phase before.
	States map[string][]snapshot.State `json:"-"`
}

// State is what a scenario held after a phase.
func (r *Recording) State(scenario string, phase int) snapshot.State {
	states := r.States[scenario]
	for i := min(phase, len(states)-1); i >= 0; i-- {
		if states[i] != nil {
			return states[i]
		}
	}
	return snapshot.State{}
}

// Failed says that the manager has failed at a scenario in a phase or before: what it left is then something half done.
func (r *Recording) Failed(scenario string, phase int) bool {
	for i := range phase + 1 {
		if r.State(scenario, i).Failed() {
			return true
		}
	}
	return false
}

// Add notes the states after a phase.
func (r *Recording) Add(states map[string]snapshot.State, scenarios []string) {
	if r.States == nil {
		r.States = map[string][]snapshot.State{}
	}
	for _, name := range scenarios {
		state := states[name]
		if list := r.States[name]; len(list) > 0 && snapshot.Compact(state) == snapshot.Compact(r.State(name, len(list)-1)) {
			state = nil
		}
		r.States[name] = append(r.States[name], state)
	}
	r.Shared = append(r.Shared, states[""])
}

type line struct {
	Scenario string           `json:"scenario"`
	States   []snapshot.State `json:"states"`
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

// Read reads the recording of a group.
func Read(dir, group string) (*Recording, error) {
	data, err := os.ReadFile(filepath.Join(filepath.Clean(dir), group+".jsonl"))
	if err != nil {
		return nil, fmt.Errorf("recording of group %s: %w; make record-aws makes it", group, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	r := &Recording{States: map[string][]snapshot.State{}}
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
