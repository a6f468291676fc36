package difference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/compare"
)

// Difference is one thing that differs between what two managers left of a scenario.
type Difference struct {
	Scenario, Phase string
	// Path is where, for example node.web-1.example.org.addresses.
	Path string
	// Theirs and Ours are the values as JSON, "" for none.
	Theirs, Ours string
	// Failed says that theirs has failed at the scenario by then.
	Failed bool
}

func (d Difference) String() string {
	return fmt.Sprintf("%s, %s: %s: theirs has %s, ours has %s", d.Scenario, d.Phase, d.Path, compare.OrNone(d.Theirs), compare.OrNone(d.Ours))
}

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
