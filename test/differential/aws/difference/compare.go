package difference

import (
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/compare"
)

// Intended is a difference that is meant to be.
type Intended = compare.Intended

// Compare returns how two states differ, the events of Services aside, as functions of a path and both values.
func Compare(theirs, ours snapshot.State, report func(path, theirs, ours string)) {
	a, b := snapshot.Object{}, snapshot.Object{}
	for kind := range theirs {
		a[kind], b[kind] = theirs[kind], ours[kind]
	}
	for kind := range ours {
		a[kind], b[kind] = theirs[kind], ours[kind]
	}
	compare.Walk(a, b, func(path []string, theirs, ours string) {
		if !slices.Contains(path, "events") {
			report(strings.Join(path, "."), theirs, ours)
		}
	})
}
