package difference

import "slices"

// Differences are all those that are meant to be.
func Differences() []Intended {
	return slices.Concat(ofNodes(), ofRoutes(), ofClassic(), ofNetwork(), ofNetworkLater(), ofDualStack())
}

func ofNodes() []Intended {
	return []Intended{
		{
			Name:      "topology beside a user's label",
			Theirs:    "A Node that has the label topology.k8s.aws/network-node-layer-1 gets none of the other layers.",
			Here:      "It gets each layer's label that it lacks.",
			Why:       "Each label stands for itself: what a user has set stays, and the rest is said.",
			Scenarios: `node-topology-there`, Path: `node\..*\.labels\.topology\.k8s\.aws/network-node-layer-[23]`,
		},
		{
			Name:      "Nodes by their address",
			Theirs:    "A Node without a provider ID is found by its instance's private DNS name alone: with another domain, or none, it waits for ever.",
			Here:      "It is found by the address in its name, too, or the one that its kubelet was given.",
			Why:       "DHCP options and users name machines as they like (#384, #63, #72).",
			Scenarios: `node-name-short`, Path: `node\.ip-10-0-32-99\.(addresses|labels|providerID|taints)`,
		},
		{
			Name:      "Nodes of Fargate",
			Theirs:    "They are initialized by their network interfaces, and while they are not ready they are said to be shut down.",
			Here:      "They are left alone.",
			Why:       "They are no instances, and there are none but in EKS, which looks after them itself; one that is not ready is not shut down.",
			Scenarios: `fargate-(new|not-ready|gone)`, Path: `node\.fargate-ip-.*\.(addresses|labels|taints)`,
		},
		{
			Name:      "Nodes of Fargate whose interface is gone",
			Theirs:    "They are deleted.",
			Here:      "They are left alone.",
			Why:       "As above.",
			Scenarios: `fargate-gone`, Phases: `change 1`, Path: `node\.fargate-ip-10-0-32-83\.eu-central-1\.compute\.internal`,
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

func ofRoutes() []Intended {
	return []Intended{
		{
			Name:      "routes to instances with several interfaces",
			Theirs:    "Such an instance is named by its own ID, which EC2 refuses: its Node has no route and stays without a network for ever.",
			Here:      "Its primary interface is let forward, and is the target.",
			Why:       "Network plugins attach interfaces: Pods of such Nodes must be reached, too (kubernetes/kubernetes#92783, #70924).",
			Scenarios: `route-two-interfaces`,
			Path:      `instance\.i-00000000000000302|node\..*\.networkUnavailable|route\.10\.100\.4\.0/24`,
		},
		{
			Name:      "routes of deleted Nodes",
			Theirs:    "No routes are read while there is one to an instance without a Node: it stays, and nothing is done about any other.",
			Here:      "It goes with its Node.",
			Why:       "The next Node with the same pod CIDR must be reached; one Node's end must not stop all routes (#627, #1351).",
			Scenarios: `route-goes`, Phases: `change 1`, Path: `route\.10\.100\.1\.0/24`,
		},
		{
			Name:      "routes of deleted Nodes, when all are deleted",
			Theirs:    "As above: they stay.",
			Here:      "They go.",
			Why:       "As above.",
			Scenarios: `route-(plain|forwards|beside-(goes|ends|outside))`, Phases: `delete`, Path: `route\.10\.100\.\d+\.0/24`,
		},
		{
			Name:      "routes to terminated instances",
			Theirs:    "A Node's route to a terminated instance is deleted, made anew in vain, and so on until the Node goes.",
			Here:      "It stays as it is until it can be replaced, or the Node goes.",
			Why:       "What is sent to the Node's Pods meanwhile is dropped, and does not leave by the default route.",
			Scenarios: `route-ends`, Phases: `change 1`, Path: `route\.10\.100\.2\.0/24`,
		},
		{
			Name:      "routes to instances that are gone",
			Theirs:    "A route in the pod CIDRs to an instance that EC2 does not know any more stops all routes for ever.",
			Here:      "It goes, and the Nodes get theirs.",
			Why:       "As above: one route must not stop the others (#627).",
			Scenarios: `route(-beside)?-gone`,
			Path:      `instance\.i-00000000000000400|node\..*\.networkUnavailable|route\.10\.100\.[89]\.0/24`,
		},
	}
}
