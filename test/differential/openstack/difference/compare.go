package difference

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
)

// Difference is one thing that differs between what two managers left of a scenario.
type Difference struct {
	Scenario, Phase string
	// Path is where, for example lb[kube_service_…].listener[TCP:80].timeout_client_data.
	Path string
	// OCCM and Ours are the values as JSON, "" for none.
	OCCM, Ours string
	// Reached says how far the two have come with the scenario by then.
	Reached Reached
}

// Reached is how far OCCM and ours have come with a scenario.
type Reached int

const (
	// BothServe is also where neither has anything to serve.
	BothServe Reached = iota
	// OnlyOurs is where OCCM has failed at it once at least, ours has not, and every Service has an address.
	OnlyOurs
	// Neither is where OCCM has failed at it, and so does ours, or a Service has no address.
	Neither
)

// ReachedBy is how far they have come after a phase, at whose end ours left a state.
func ReachedBy(r *recording.Recording, scenario string, phase int, ours *snapshot.State) Reached {
	switch {
	case !r.Failed(scenario, phase):
		return BothServe
	case ours.Served():
		return OnlyOurs
	default:
		return Neither
	}
}

func (d Difference) String() string {
	return fmt.Sprintf("%s, %s: %s: OCCM has %s, ours has %s", d.Scenario, d.Phase, d.Path, orNone(d.OCCM), orNone(d.Ours))
}

func orNone(v string) string {
	if v == "" {
		return "nothing"
	}
	return v
}

// Compare returns how two states of a scenario differ, the events of Services aside.
func Compare(scenario, phase string, occm, ours *snapshot.State) ([]Difference, error) {
	a, err := occm.Tree()
	if err != nil {
		return nil, err
	}
	b, err := ours.Tree()
	if err != nil {
		return nil, err
	}
	var out []Difference
	differ(a, b, "", func(path, x, y string) {
		out = append(out, Difference{Scenario: scenario, Phase: phase, Path: strings.TrimPrefix(path, "."), OCCM: x, Ours: y})
	})
	return out, nil
}

// differ walks two trees side by side.
func differ(a, b any, path string, report func(path, a, b string)) {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if !isX || !isY {
		if t, u := shown(a), shown(b); t != u {
			report(path, t, u)
		}
		return
	}
	keys := slices.Collect(maps.Keys(x))
	for k := range y {
		if _, is := x[k]; !is {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		at := path + "." + k
		if strings.HasPrefix(k, "[") {
			at = path + k
		}
		differ(x[k], y[k], at, report)
	}
}

func shown(v any) string {
	if v == nil {
		return ""
	}
	return snapshot.Compact(v)
}
