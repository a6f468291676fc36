package steps

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// Group is scenarios that are played side by side: by one manager with one cloud.conf, in one cloud. What its cloud W, its Nodes N, what
// is given G and a step S are, each cloud says. Digests are of the fields in their order; those that not all clouds have are left out
// where they are empty.
type Group[W, N, G any, S Taken] struct {
	Name string
	// World is what the cloud is like.
	World W
	// Conf is the text of cloud.conf; symbols stand for identifiers.
	Conf string
	// ClusterName is --cluster-name, the cloud's usual one without.
	ClusterName string
	// Controllers are those that run, Args further flags of both managers.
	Controllers []string `json:",omitempty"`
	Args        []string `json:",omitempty"`
	// Nodes are there from the start, as cloud-node-controller leaves them; Joins comes and then Leaves (its index) goes, after all
	// steps of the scenarios, where Joins is set.
	Nodes  []N
	Joins  *N
	Leaves int
	// Scenarios have names that are unique among all groups.
	Scenarios []Scenario[N, G, S]

	changes int // phases of changes, at the least; see Part
}

// Scenario is what users do with some Services, and with Nodes. It has a namespace of its own, of its name.
type Scenario[N, G any, S Taken] struct {
	Name string
	// Given is what users have made in the cloud before.
	Given    G
	Nodes    []N `json:",omitempty"`
	Services []Service
	// Steps follow after all is made; those of all scenarios of a group are taken side by side.
	Steps []S

	first int // number of its first Service, at the least; see Only
}

// Taken is a step of any cloud.
type Taken interface {
	// OfService is the change of a Service that it is, nil where it is of something else.
	OfService() *Step
}

// OfService is the step itself.
func (s Step) OfService() *Step { return &s }

// Only is the group with some of its scenarios alone. Their Services keep the node ports that they have in the whole group.
func (g *Group[W, N, G, S]) Only(names ...string) *Group[W, N, G, S] {
	out, number := *g, 0
	out.Scenarios = nil
	for _, s := range g.Scenarios {
		if slices.Contains(names, s.Name) {
			s.first = number
			out.Scenarios = append(out.Scenarios, s)
		}
		number += len(s.Services)
	}
	return &out
}

// Part is Only with the phases of the whole group.
func (g *Group[W, N, G, S]) Part(names ...string) *Group[W, N, G, S] {
	out := g.Only(names...)
	out.changes = g.steps()
	return out
}

// steps are the most that a scenario has.
func (g *Group[W, N, G, S]) steps() int {
	most := g.changes
	for _, s := range g.Scenarios {
		most = max(most, len(s.Steps))
	}
	return most
}

// Names are those of the scenarios.
func (g *Group[W, N, G, S]) Names() []string {
	var out []string
	for _, s := range g.Scenarios {
		out = append(out, s.Name)
	}
	return out
}

// Cluster is the --cluster-name of a group whose cloud has no other usual one.
func (g *Group[W, N, G, S]) Cluster() string { return cmp.Or(g.ClusterName, "kubernetes") }

// Servers is how many machines the group's cloud must have.
func (g *Group[W, N, G, S]) Servers() int {
	if g.Joins != nil {
		return len(g.Nodes) + 1
	}
	return len(g.Nodes)
}

// Phases are the names of what is done one after the other in a group, the creation first.
func (g *Group[W, N, G, S]) Phases() []string {
	out := []string{"create"}
	for i := range g.steps() {
		out = append(out, fmt.Sprintf("change %d", i+1))
	}
	if g.Joins != nil {
		out = append(out, "node joins", "node leaves")
	}
	return append(out, "delete")
}

// Changed is the phase in which a scenario last changed by itself, up to a phase: its last step, or its creation.
func (g *Group[W, N, G, S]) Changed(scenario string, phase int) int {
	for _, s := range g.Scenarios {
		if s.Name == scenario {
			return min(phase, len(s.Steps))
		}
	}
	return 0
}

// Backs are the phases after which the existing manager is started on what ours has left: the first, and the last one before the end.
func (g *Group[W, N, G, S]) Backs() []int {
	last := len(g.Phases()) - 2
	if last == 0 || slices.Contains(g.Controllers, "cloud-node-controller") { // ours believes only after a while that an instance is gone
		return []int{0}
	}
	return []int{0, last}
}

// Takeovers are the phases after which ours is started on what the existing manager has left. When a Node has joined, one leaves
// next, and all is as different again.
func (g *Group[W, N, G, S]) Takeovers() (out []int) {
	for i, name := range g.Phases() {
		if name != "node joins" && name != "delete" {
			out = append(out, i)
		}
	}
	return out
}

// Act is a Service of a scenario with all that is done to it.
type Act struct {
	Scenario string
	*Service
	// Number is one that no other Service of the group has.
	Number int
	// Steps are by their number, nil for those that do nothing to the Service.
	Steps []*Step
}

// Acts are those of all Services.
func (g *Group[W, N, G, S]) Acts() (out []Act) {
	number := 0
	for i := range g.Scenarios {
		s := &g.Scenarios[i]
		number = max(number, s.first)
		for j := range s.Services {
			a := Act{Scenario: s.Name, Service: &s.Services[j], Number: number}
			for _, taken := range s.Steps {
				step := taken.OfService()
				if step != nil && step.ServiceName() != a.ServiceName() {
					step = nil
				}
				a.Steps = append(a.Steps, step)
			}
			out = append(out, a)
			number++
		}
	}
	return out
}

// Begin is the Service as it is to be created.
func (a *Act) Begin(symbols *symbol.Symbols) (*corev1.Service, error) {
	return a.Object(a.Scenario, a.Number, symbols)
}

// After is the Service as users have it after a phase, and whether they have deleted it.
func (a *Act) After(phase int, symbols *symbol.Symbols) (object *corev1.Service, deleted bool, err error) {
	object, err = a.Begin(symbols)
	if err != nil {
		return nil, false, err
	}
	for _, step := range a.Steps[:min(phase, len(a.Steps))] {
		switch {
		case step == nil || step.Create:
		case step.Delete:
			return object, true, nil
		default:
			if err := merge(object, step.Patch, a.Number, symbols); err != nil {
				return nil, false, err
			}
		}
	}
	return object, false, nil
}
