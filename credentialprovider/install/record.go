package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// recordName is the record's name in the configuration's directory. It has no suffix, for which see
// tempSuffix.
const recordName = ".isthmus-installed"

// record says which files are ours.
type record struct {
	// Files are the sums of what may be in a place: one, or those before and after a change
	// that is under way.
	Files map[string][]string `json:"files"`
	// Restart is that the kubelet is still to be restarted.
	Restart bool `json:"restartKubelet,omitempty"`
	// Rejected is the sum of what the kubelet did not run with, "" for none.
	Rejected string `json:"rejected,omitempty"`
}

func (p Plan) recordFile() string { return filepath.Join(p.ConfigDir, recordName) }

func (p Plan) readRecord() (record, error) {
	r := record{Files: map[string][]string{}}
	data, err := os.ReadFile(p.recordFile())
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return r, fmt.Errorf("the record %s of what was installed cannot be read: %w; remove it, then nothing counts as installed", p.recordFile(), err)
	}
	if r.Files == nil {
		r.Files = map[string][]string{}
	}
	return r, nil
}

func (p Plan) writeRecord(r record) error {
	p.between()
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	temp := filepath.Join(p.ConfigDir, tempPrefix+recordName+tempSuffix)
	if err := writeFile(temp, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("the record of what is installed: %w", err)
	}
	p.between()
	if err := os.Rename(temp, p.recordFile()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	p.between()
	return syncDir(p.ConfigDir)
}

// with adds what is to take its place.
func (r record) with(changes []Item, restart bool) record {
	out := record{Files: maps.Clone(r.Files), Restart: restart, Rejected: r.Rejected}
	for _, i := range changes {
		if !slices.Contains(out.Files[i.key()], i.sum()) {
			out.Files[i.key()] = append(slices.Clone(out.Files[i.key()]), i.sum())
		}
	}
	return out
}

// settled is the record once the items are in their places. Files of earlier versions stay in it.
func (r record) settled(items []Item, restart bool) record {
	out := record{Files: maps.Clone(r.Files), Restart: restart, Rejected: r.Rejected}
	for _, i := range items {
		out.Files[i.key()] = []string{i.sum()}
	}
	return out
}

func (r record) equal(o record) bool {
	return r.Restart == o.Restart && r.Rejected == o.Rejected && maps.EqualFunc(r.Files, o.Files, slices.Equal)
}
