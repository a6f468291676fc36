package script

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
	"github.com/isthmus-cloud/isthmus/test/differential/steps"
)

// Group is scenarios that are played side by side. Given are machines of no Node. A scenario's Node has its name, or the one that
// Node.As says. In Conf {vcN:server} and so on stand for what is known of the vCenter with the number N (see sim.VCenter.Access).
type Group = steps.Group[World, Node, []Machine, Step]

// World is what there is beside Nodes and their machines.
type World struct {
	sim.Inventory
	// Two is for two vCenters with this inventory.
	Two bool `json:",omitempty"`
	// Secret is what the Secret kube-system/vcenter has, with symbols as Conf; there is none without.
	Secret map[string]string `json:",omitempty"`
}

// Scenario is what users do with some Nodes.
type Scenario = steps.Scenario[Node, []Machine, Step]

// Machine is a machine in one of the vCenters, by their numbers.
type Machine struct {
	sim.Spec
	VCenter int `json:",omitempty"`
}

// Node is a Node and the machine behind it.
type Node struct {
	// As is its name: the scenario's, or as it is.
	As string `json:",omitempty"`
	// ProviderID and SystemUUID are what it has from the start. {uuid} in them is the machine's, {swapped} that in the other order of its
	// bytes, {UUID} and {SWAPPED} the same in upper case.
	ProviderID string `json:",omitempty"`
	SystemUUID string `json:",omitempty"`
	// Machine is the machine; nil for none.
	Machine *Machine `json:",omitempty"`
	// Labels, Annotations and Addresses are from the start.
	Labels      map[string]string `json:",omitempty"`
	Annotations map[string]string `json:",omitempty"`
	Addresses   []string          `json:",omitempty"`
	// Known has no taint that asks for initialization.
	Known bool                   `json:",omitempty"`
	Ready corev1.ConditionStatus `json:",omitempty"`
}

// Step is a change of a Node and its machine, or of more. After each, kubelets report that they are there.
type Step struct {
	// Node is one of the scenario's, by its index, and Machine what becomes of its machine.
	Node    int         `json:",omitempty"`
	Machine *sim.Change `json:",omitempty"`
	// Ready is the status of the Node's condition from then on.
	Ready corev1.ConditionStatus `json:",omitempty"`
	// Delete deletes the Node, and Joins makes another one.
	Delete bool  `json:",omitempty"`
	Joins  *Node `json:",omitempty"`
	// Tag is attached. Down and Up are vCenters, by their numbers counted from one, that answer nothing any more or again.
	Tag  *sim.Tag `json:",omitempty"`
	Down int      `json:",omitempty"`
	Up   int      `json:",omitempty"`
}

// OfService says that there is none.
func (Step) OfService() *steps.Step { return nil }

// Digest tells one description of a group from another.
func Digest(g *Group) string {
	data, err := json.Marshal(g)
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
