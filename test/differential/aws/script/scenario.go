package script

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/differential/steps"
)

// Names of the cluster: ClusterID is in tags, ClusterName the flag --cluster-name. They differ for a mix-up to be seen.
const (
	ClusterID   = "prod"
	ClusterName = "prod.example"
)

// Group is scenarios that are played side by side: by one manager with one cloud.conf, in one cloud.
type Group struct {
	Name string
	// Conf is the text of cloud.conf.
	Conf string
	// Controllers are those that run, Args further flags of both managers.
	Controllers, Args []string
	// Nodes are there from the start, as cloud-node-controller leaves them; Joins comes and then Leaves (its index) goes, after
	// all steps of the scenarios, where Joins is set.
	Nodes  []Node
	Joins  *Node
	Leaves int
	// Scenarios have names that are unique among all groups.
	Scenarios []Scenario
}

// Scenario is what users do with some Nodes and Services. Its Services have a namespace of its name, its Nodes its name
// in theirs, or in the name that Node.As says.
type Scenario struct {
	Name string
	// Given are routes that are in the cluster's table before.
	Given    []ec2.Route
	Nodes    []Node
	Services []steps.Service
	// Steps follow after Nodes and Services are made; those of all scenarios of a group are taken side by side.
	Steps []Step

	first int // number of its first Service, at the least; see Only
}

// Node is a Node and the instance behind it.
type Node struct {
	// As is its name: "dns" (the default) the instance's private DNS name, "id" the instance's ID, else as it is.
	As string
	// ProviderID is what it has from the start. {id} and {zone} in it are the instance's.
	ProviderID string
	// Instance is the instance; nil for none. Untagged leaves the cluster's tag away.
	Instance *ec2.Instance
	Untagged bool
	// Labels and Annotations are from the start.
	Labels, Annotations map[string]string
	PodCIDRs            []string
	// Known has no taint that asks for initialization.
	Known bool
}

// Step is a change of a Service, or of a Node and its instance.
type Step struct {
	Service *steps.Step
	Node    *NodeStep
}

// NodeStep is a change of one of the scenario's Nodes, by its index.
type NodeStep struct {
	Node int
	// Instance is "stop", "run", "terminate" or "vanish".
	Instance string
	// Interface is attached to the instance.
	Interface *ec2.NetworkInterface
	// Patch is a JSON merge patch of the Node, Ready the status of its condition.
	Patch string
	Ready corev1.ConditionStatus
	// Delete deletes the Node.
	Delete bool
}

// Only is the group with some of its scenarios alone. Their Services keep the node ports that they have in the whole group.
func (g *Group) Only(names ...string) *Group {
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

// Phases are the names of what is done one after the other in a group, the creation first.
func (g *Group) Phases() []string {
	most := 0
	for _, s := range g.Scenarios {
		most = max(most, len(s.Steps))
	}
	out := []string{"create"}
	for i := range most {
		out = append(out, fmt.Sprintf("change %d", i+1))
	}
	if g.Joins != nil {
		out = append(out, "node joins", "node leaves")
	}
	return append(out, "delete")
}

// Changed is the phase in which a scenario last changed by itself, up to a phase: its last step, or its creation.
func (g *Group) Changed(scenario string, phase int) int {
	for _, s := range g.Scenarios {
		if s.Name == scenario {
			return min(phase, len(s.Steps))
		}
	}
	return 0
}

// Backs are the phases after which the existing manager is started on what ours has left.
func (g *Group) Backs() []int {
	last := len(g.Phases()) - 2
	if last == 0 || slices.Contains(g.Controllers, "cloud-node-controller") { // ours believes only after a while that an instance is gone
		return []int{0}
	}
	return []int{0, last}
}

// Takeovers are the phases after which ours is started on what the existing manager has left. When a Node has joined, one leaves
// next, and all is as different again.
func (g *Group) Takeovers() (out []int) {
	for i, name := range g.Phases() {
		if name != "node joins" && name != "delete" {
			out = append(out, i)
		}
	}
	return out
}

// Each calls do for each Service, with a number that no other Service of the group has.
func (g *Group) Each(do func(s *Scenario, service *steps.Service, number int) error) error {
	number := 0
	for i := range g.Scenarios {
		s := &g.Scenarios[i]
		number = max(number, s.first)
		for j := range s.Services {
			if err := do(s, &s.Services[j], number); err != nil {
				return fmt.Errorf("scenario %s: %w", s.Name, err)
			}
			number++
		}
	}
	return nil
}

// Names are those of the scenarios.
func (g *Group) Names() []string {
	var out []string
	for _, s := range g.Scenarios {
		out = append(out, s.Name)
	}
	return out
}

// Digest tells one description of a group from another. Fields that are empty do not count.
func (g *Group) Digest() string {
	data, err := json.Marshal(g)
	if err != nil {
		return err.Error()
	}
	var all any
	if err := json.Unmarshal(data, &all); err != nil {
		return err.Error()
	}
	data, err = json.Marshal(filled(all))
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// filled leaves out what is empty, nil for nothing left.
func filled(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if x = filled(x); x != nil {
				out[k] = x
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		if len(v) == 0 {
			return nil
		}
	case string, float64, bool:
		if v == "" || v == 0.0 || v == false || v == "0001-01-01T00:00:00Z" {
			return nil
		}
	}
	return v
}
