package difference

import (
	"encoding/json"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/snapshot"
)

// Compare returns how two states differ, as functions of a path and both values. The path of a Node that one of them has not is its name.
func Compare(theirs, ours snapshot.State, report func(path, theirs, ours string)) {
	compare.Walk(plain(theirs), plain(ours), func(path []string, theirs, ours string) { report(strings.Join(path, " "), theirs, ours) })
}

// plain is a state as it is read from JSON; nil where it cannot be, which no state is.
func plain(s snapshot.State) any {
	data, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil
	}
	return out
}
