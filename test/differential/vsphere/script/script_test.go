package script

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// wantScenarios is how many there are at least.
const wantScenarios = 350

func TestScenarios(t *testing.T) {
	scenarios, groups := map[string]bool{}, map[string]bool{}
	for _, g := range Groups() {
		if groups[g.Name] {
			t.Errorf("two groups are named %s", g.Name)
		}
		groups[g.Name] = true
		nodes := map[string]bool{}
		for _, s := range g.Scenarios {
			if errs := validation.IsDNS1123Label(s.Name); scenarios[s.Name] || len(errs) > 0 {
				t.Errorf("scenario %s: %v, or there are two", s.Name, errs)
			}
			scenarios[s.Name] = true
			for _, n := range s.Nodes {
				name := n.As
				if name == "" {
					name = s.Name
				}
				if errs := validation.IsDNS1123Subdomain(name); nodes[name] || len(errs) > 0 {
					t.Errorf("scenario %s: Node %s: %v, or there are two in the group", s.Name, name, errs)
				}
				nodes[name] = true
			}
		}
	}
	if len(scenarios) < wantScenarios {
		t.Errorf("%d scenarios, want %d", len(scenarios), wantScenarios)
	}
}

// A digest that does not change with what it is of would let recordings be of something else.
func TestDigest(t *testing.T) {
	a, b := names(), names()
	if Digest(&a) != Digest(&b) {
		t.Error("the digest of a group is another one at each look")
	}
	b.Scenarios[0].Nodes[0].Machine.CPUs++
	if Digest(&a) == Digest(&b) {
		t.Error("another machine, but the same digest")
	}
}
