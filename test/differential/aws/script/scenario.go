package script

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/differential/steps"
)

// Names of the cluster: ClusterID is in tags, ClusterName the flag --cluster-name. They differ for a mix-up to be seen.
const (
	ClusterID   = "prod"
	ClusterName = "prod.example"
)

// Group is scenarios that are played side by side. Given are routes that are in the cluster's table before. A scenario's Nodes have its
// name in theirs, or the name that Node.As says.
type Group = steps.Group[World, Node, []ec2.Route, Step]

// World is what is in the cloud of a group beside what is in each.
type World struct {
	// DualStack has subnets with ranges of IPv6, the public ones with a route by it to the internet.
	DualStack bool
}

// Scenario is what users do with some Nodes and Services.
type Scenario = steps.Scenario[Node, []ec2.Route, Step]

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

// OfService is the change of a Service, nil where it is of a Node.
func (s Step) OfService() *steps.Step { return s.Service }

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

// Digest tells one description of a group from another. Fields of the group itself that are empty do not count.
func Digest(g *Group) string {
	data, err := json.Marshal(g)
	if err != nil {
		return err.Error()
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		return err.Error()
	}
	scenarios, _ := all["Scenarios"].([]any)
	for _, s := range scenarios {
		if s, is := s.(map[string]any); is && s["Nodes"] == nil {
			s["Nodes"] = nil // what is empty counts in lists
		}
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
