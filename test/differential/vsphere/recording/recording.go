package recording

import (
	"github.com/isthmus-cloud/isthmus/test/differential/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/snapshot"
)

// Recording is what a manager has done in a group; with it is what it has done on what ours had left.
type Recording = recording.Recording[snapshot.State]

// Read reads the recording of a group.
func Read(dir, group string) (*Recording, error) { return recording.Read[snapshot.State](dir, group) }
