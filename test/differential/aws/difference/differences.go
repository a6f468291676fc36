package difference

// Differences are all those that are meant to be.
func Differences() []Intended {
	return []Intended{
		{
			Name:      "topology beside a user's label",
			Theirs:    "A Node that has the label topology.k8s.aws/network-node-layer-1 gets none of the other layers.",
			Here:      "It gets each layer's label that it lacks.",
			Why:       "Each label stands for itself: what a user has set stays, and the rest is said.",
			Scenarios: `node-topology-there`, Path: `node\..*\.labels\.topology\.k8s\.aws/network-node-layer-[23]`,
		},
		{
			Name:      "Nodes that nothing is known of go",
			Theirs:    "A Node without a provider ID whose name leads to no instance stays for ever, also when it is not ready; in v1.37.0 it is deleted.",
			Here:      "It is deleted once it is not ready, within the limits of the deletion guard.",
			Why:       "What is left of a machine that is gone must go, too.",
			Scenarios: `node-name-unknown-later|node-known-dead`, Path: `node\.[a-z.-]*`,
		},
	}
}
