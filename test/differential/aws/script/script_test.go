package script

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/isthmus-cloud/isthmus/test/differential/steps"
)

// wantScenarios is how many there are at least.
const wantScenarios = 290

func TestScenarios(t *testing.T) {
	scenarios, groups, instances := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, g := range Groups() {
		if groups[g.Name] {
			t.Errorf("two groups are named %s", g.Name)
		}
		groups[g.Name] = true
		services := 0
		for _, s := range g.Scenarios {
			if errs := validation.IsDNS1123Label(s.Name); scenarios[s.Name] || len(errs) > 0 {
				t.Errorf("scenario %s: %v, or there are two", s.Name, errs)
			}
			scenarios[s.Name] = true
			services += len(s.Services)
			for _, n := range s.Nodes {
				if n.Instance != nil && instances[n.Instance.ID] {
					t.Errorf("scenario %s: another one has instance %s, too", s.Name, n.Instance.ID)
				}
				if n.Instance != nil {
					instances[n.Instance.ID] = true
				}
			}
		}
		if last := steps.FirstNodePort + 8*services; last >= steps.HealthNodePort {
			t.Errorf("group %s: node ports end at %d", g.Name, last)
		}
	}
	if len(scenarios) < wantScenarios {
		t.Errorf("%d scenarios, want %d", len(scenarios), wantScenarios)
	}
}

// A digest that does not change with what it is of would let recordings be of something else.
func TestDigest(t *testing.T) {
	a, b := nodes(), nodes()
	if Digest(&a) != Digest(&b) {
		t.Error("the digest of a group is another one at each look")
	}
	b.Scenarios[0].Nodes[0].Instance.Type = "t3.micro"
	if Digest(&a) == Digest(&b) {
		t.Error("another instance, but the same digest")
	}
}
