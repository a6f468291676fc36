package script

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/isthmus-cloud/isthmus/test/differential/steps"
)

// wantScenarios is how many there are at least.
const wantScenarios = 300

func TestScenarios(t *testing.T) {
	seen, groups := map[string]bool{}, map[string]bool{}
	for _, g := range Groups() {
		if groups[g.Name] {
			t.Errorf("two groups are named %s", g.Name)
		}
		groups[g.Name] = true
		services := 0
		for _, s := range g.Scenarios {
			if seen[s.Name] {
				t.Errorf("two scenarios are named %s", s.Name)
			}
			seen[s.Name] = true
			if errs := validation.IsDNS1123Label(s.Name); len(errs) > 0 {
				t.Errorf("scenario %s: %v", s.Name, errs)
			}
			services += len(s.Services)
		}
		if last := steps.FirstNodePort + 8*services; last > steps.HealthNodePort {
			t.Errorf("group %s has more Services than there are node ports", g.Name)
		}
	}
	if len(seen) < wantScenarios {
		t.Errorf("%d scenarios, want %d at least", len(seen), wantScenarios)
	}
	t.Logf("%d scenarios in %d groups", len(seen), len(groups))
}

// A recording holds only as long as the group is what was recorded, so groups must not differ
// between two processes.
func TestGroupsAreAlwaysTheSame(t *testing.T) {
	first, second := Groups(), Groups()
	for i := range first {
		if Digest(&first[i]) != Digest(&second[i]) {
			t.Errorf("group %s differs from one time to the next", first[i].Name)
		}
	}
}
