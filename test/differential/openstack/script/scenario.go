package script

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/steps"
)

// Group is scenarios that are played side by side: by one manager with one cloud.conf, in one
// cloud and with the same Nodes.
type Group struct {
	Name string
	// World is the cloud.
	World World
	// Conf is the text of cloud.conf after its section [Global]; symbols stand for identifiers.
	Conf string
	// ClusterName is --cluster-name, kubernetes without; Renamed is what it is at every later start,
	// for the takeover only.
	ClusterName string
	// Nodes are there from the start; Joins comes and then Leaves (its index) goes, after all
	// steps of the scenarios, where Joins is set.
	Nodes  []Node
	Joins  *Node
	Leaves int
	// Scenarios have names that are unique among all groups.
	Scenarios []Scenario
}

// Node is a Node of the cluster. The cloud has a server for each.
type Node struct {
	// Internal and External are its addresses; symbols stand for those of its server.
	Internal, External []string
	Labels             map[string]string
}

// Scenario is what users do with some Services. It has a namespace of its own, of its name.
type Scenario struct {
	Name string
	// Given is what users have made in the cloud before.
	Given    *snapshot.State
	Services []Service
	// Steps follow after the Services are made; those of all scenarios of a group are taken
	// side by side.
	Steps []Step

	first int // number of its first Service, at the least; see Only
}

// Only is the group with some of its scenarios alone. Their Services keep the node ports that they
// have in the whole group.
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

// Service is what all clouds have.
type Service = steps.Service

// Step is what all clouds have.
type Step = steps.Step

// Cluster is the --cluster-name of a group.
func (g *Group) Cluster() string {
	if g.ClusterName == "" {
		return "kubernetes"
	}
	return g.ClusterName
}

// Phases are the names of what is done one after the other in a group, the Services' creation first.
func (g *Group) Phases() []string {
	steps := 0
	for _, s := range g.Scenarios {
		steps = max(steps, len(s.Steps))
	}
	out := []string{"create"}
	for i := range steps {
		out = append(out, fmt.Sprintf("change %d", i+1))
	}
	if g.Joins != nil {
		out = append(out, "node joins", "node leaves")
	}
	return append(out, "delete")
}

// Servers is how many servers the group's cloud must have.
func (g *Group) Servers() int {
	if g.Joins != nil {
		return len(g.Nodes) + 1
	}
	return len(g.Nodes)
}

// Digest tells one description of a group from another.
func (g *Group) Digest() string {
	sum := sha256.Sum256([]byte(snapshot.Compact(g)))
	return hex.EncodeToString(sum[:8])
}

// Backs are the phases after which OCCM is started on what ours has left: the first, and the last one before the end.
func (g *Group) Backs() []int {
	last := len(g.Phases()) - 2
	if last == 0 {
		return []int{0}
	}
	return []int{0, last}
}

// World says what the cloud of a group is like.
type World struct {
	// External is how many external networks there are: -1 for none, 0 for one.
	External int
	// DualStack has an IPv6 subnet beside the IPv4 one.
	DualStack bool
	// Stuck has Octavia's amphora driver leave what comes with a new load balancer in PENDING_CREATE, as Zed
	// does without a jobboard.
	Stuck bool
	// Hidden has Neutron hide the subnets of external networks from projects, as its default policy does.
	Hidden bool `json:",omitempty"`
}

// Each calls do for each Service, with a number that no other Service of the group has.
func (g *Group) Each(do func(s *Scenario, service *Service, number int) error) error {
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
