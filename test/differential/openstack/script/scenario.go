package script

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/steps"
)

// Group is scenarios that are played side by side. Its Conf is what follows the section [Global]; Given is what users have made in the
// cloud before.
type Group = steps.Group[World, Node, *snapshot.State, Step]

// Scenario is what users do with some Services.
type Scenario = steps.Scenario[Node, *snapshot.State, Step]

// Node is a Node of the cluster. The cloud has a server for each.
type Node struct {
	// Internal and External are its addresses; symbols stand for those of its server.
	Internal, External []string
	Labels             map[string]string
}

// Service is what all clouds have.
type Service = steps.Service

// Step is what all clouds have.
type Step = steps.Step

// Digest tells one description of a group from another.
func Digest(g *Group) string {
	sum := sha256.Sum256([]byte(snapshot.Compact(g)))
	return hex.EncodeToString(sum[:8])
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
