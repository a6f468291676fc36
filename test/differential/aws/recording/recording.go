package recording

import (
	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/recording"
)

// Recording is what a manager has done in a group.
type Recording = recording.Recording[snapshot.State]

// Read reads the recording of a group.
func Read(dir, group string) (*Recording, error) { return recording.Read[snapshot.State](dir, group) }
