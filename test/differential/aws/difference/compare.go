package difference

import (
	"fmt"
	"maps"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
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
	return fmt.Sprintf("%s, %s: %s: theirs has %s, ours has %s", d.Scenario, d.Phase, d.Path, orNone(d.Theirs), orNone(d.Ours))
}

func orNone(v string) string {
	if v == "" {
		return "nothing"
	}
	return v
}

// Compare returns how two states differ, the events of Services aside, as functions of a path and both values.
func Compare(theirs, ours snapshot.State, report func(path, theirs, ours string)) {
	kinds := slices.Collect(maps.Keys(theirs))
	for k := range ours {
		if _, is := theirs[k]; !is {
			kinds = append(kinds, k)
		}
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		differ(theirs[k], ours[k], k, report)
	}
}

// differ walks two objects side by side.
func differ(a, b snapshot.Object, path string, report func(path, a, b string)) {
	keys := slices.Collect(maps.Keys(a))
	for k := range b {
		if _, is := a[k]; !is {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		at := path + "." + k
		if k == "events" {
			continue
		}
		x, isX := a[k].(snapshot.Object)
		y, isY := b[k].(snapshot.Object)
		if isX && isY {
			differ(x, y, at, report)
			continue
		}
		if t, u := shown(a[k]), shown(b[k]); t != u {
			report(at, t, u)
		}
	}
}

func shown(v any) string {
	if v == nil {
		return ""
	}
	return snapshot.Compact(v)
}
