package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Back is what the existing manager has done in a group on what ours had left.
type Back struct {
	// Manager is its version.
	Manager string `json:"manager"`
	// Group is its name, and Digest that of what it was then.
	Group  string  `json:"group"`
	Digest string  `json:"digest"`
	Phases []Taken `json:"phases"`
}

// Taken is what the existing manager did when it was started on what ours had left after a phase.
type Taken struct {
	Phase int `json:"phase"`
	// Ours are digests of what ours had left, by scenario.
	Ours map[string]string `json:"ours"`
	// Did are, by scenario, the calls that changed the cloud, and what became different; none where it should be so.
	Did map[string][]string `json:"did,omitempty"`
}

func backFile(dir, group string) string {
	return filepath.Join(filepath.Clean(dir), "back", group+".json")
}

// Write writes it below the folder of the recordings.
func (b *Back) Write(dir string) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(b); err != nil {
		return err
	}
	return os.WriteFile(backFile(dir, b.Group), out.Bytes(), 0o644) //nolint:gosec // for everyone
}

// ReadBack reads what was recorded of a group on the way back.
func ReadBack(dir, group string) (*Back, error) {
	data, err := os.ReadFile(backFile(dir, group))
	if err != nil {
		return nil, fmt.Errorf("way back of group %s: %w; make record-aws ARGS='-back' makes it", group, err)
	}
	b := &Back{}
	if err := json.Unmarshal(data, b); err != nil {
		return nil, fmt.Errorf("way back of group %s: %w", group, err)
	}
	return b, nil
}
