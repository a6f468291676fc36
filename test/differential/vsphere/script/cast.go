package script

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
)

// Groups are all scenarios, in a fixed order.
func Groups() []Group {
	return slices.Concat([]Group{names(), addresses(), lives()}, inDatacenters(), choices(), families(), inZones(), several())
}

// uuidOf is the UUID of a machine, by its name.
func uuidOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	h := hex.EncodeToString(sum[:])
	return fmt.Sprintf("42%s-%s-%s-%s-%s", h[:6], h[6:10], h[10:14], h[14:18], h[18:30])
}

// cast makes scenarios of a Node each, with machines of their own.
type cast struct {
	scenarios []Scenario
	number    int
}

// add adds a scenario with a Node; what its machine does not have is as usual.
func (c *cast) add(name string, n Node, s ...Step) { c.beside(name, n, nil, s...) }

// beside is add with machines of no Node.
func (c *cast) beside(name string, n Node, given []Machine, s ...Step) {
	if n.Machine != nil {
		n.Machine = c.usual(cmp.Or(n.As, name), n.Machine)
	}
	for i := range given {
		given[i] = *c.usual(fmt.Sprint(name, "-other-", i), &given[i])
	}
	for i := range s {
		if j := s[i].Joins; j != nil {
			j.As = cmp.Or(j.As, n.As, name)
			if j.Machine != nil {
				j.Machine = c.usual(j.As, j.Machine)
			}
		}
	}
	c.scenarios = append(c.scenarios, Scenario{Name: name, Nodes: []Node{n}, Given: given, Steps: s})
}

// none is no host name, and noNICs no interface.
const none = "none"

var noNICs = []sim.NIC{{Network: none}}

// usual fills in what a machine does not have.
func (c *cast) usual(name string, m *Machine) *Machine {
	out := *m
	c.number++
	out.Name = cmp.Or(out.Name, name)
	out.UUID = cmp.Or(out.UUID, uuidOf(out.Name))
	if out.HostName = cmp.Or(out.HostName, name); out.HostName == none {
		out.HostName = ""
	}
	if out.NICs == nil {
		out.NICs = ips(fmt.Sprintf("10.0.%d.%d", c.number/200, c.number%200+1))
	}
	if out.NICs[0].Network == none {
		out.NICs = nil
	}
	return &out
}

// ips is an interface with addresses.
func ips(all ...string) []sim.NIC { return []sim.NIC{{Network: "VM Network", IPs: all}} }

// on is an interface of a network with addresses.
func on(network string, all ...string) sim.NIC { return sim.NIC{Network: network, IPs: all} }

// with is a machine with interfaces.
func with(all ...sim.NIC) *Machine { return &Machine{Spec: sim.Spec{NICs: all}} }

// plain is a Node as kubelets make it today, with a machine.
func plain(m *Machine) Node { return Node{SystemUUID: "{swapped}", Machine: m} }

// The ways in which vCenters are named in a file.
const (
	vc0 = "  a:\n    server: \"{vc0:server}\"\n    port: {vc0:port}\n    user: \"{vc0:user}\"\n    password: \"{vc0:password}\"\n    caFile: \"{vc0:ca}\"\n"
	vc1 = "  b:\n    server: \"{vc1:server}\"\n    port: {vc1:port}\n    user: \"{vc1:user}\"\n    password: \"{vc1:password}\"\n    caFile: \"{vc1:ca}\"\n"
	ini = "[Global]\nuser = \"{vc0:user}\"\npassword = \"{vc0:password}\"\nport = {vc0:port}\nca-file = \"{vc0:ca}\"\n[VirtualCenter \"{vc0:server}\"]\n"
)

// group makes one with vCenters as vcenter says, and more lines of the file.
func (c *cast) group(name, conf string, w World) Group {
	return Group{Name: name, World: w, Conf: conf, Scenarios: c.scenarios, Controllers: []string{"cloud-node-controller", "cloud-node-lifecycle-controller"},
		Args: []string{"--node-monitor-period=1s", "--node-status-update-frequency=1s"}}
}

const usualConf = "vcenter:\n" + vc0

// becomes is a step in which a machine changes and its Node goes on.
func becomes(change sim.Change) Step { return Step{Machine: &change} }

// dies is one after which nothing is heard of the Node any more.
func dies(change sim.Change) Step { return Step{Machine: &change, Ready: corev1.ConditionUnknown} }

// wakes is one after which the Node is ready.
func wakes(change sim.Change) Step { return Step{Machine: &change, Ready: corev1.ConditionTrue} }
