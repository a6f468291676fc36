package difference

import (
	"fmt"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
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
	return fmt.Sprintf("%s, %s: %s: OCCM has %s, ours has %s", d.Scenario, d.Phase, d.Path, compare.OrNone(d.OCCM), compare.OrNone(d.Ours))
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
	compare.Walk(a, b, func(path []string, x, y string) {
		at := strings.ReplaceAll("."+strings.Join(path, "."), ".[", "[")
		out = append(out, Difference{Scenario: scenario, Phase: phase, Path: strings.TrimPrefix(at, "."), OCCM: x, Ours: y})
	})
	return out, nil
}
