package script

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

// nodeControllers are those that look after Nodes, nodeArgs their flags: as often as can be.
func nodeControllers() []string {
	return []string{"cloud-node-controller", "cloud-node-lifecycle-controller"}
}
func nodeArgs() []string {
	return []string{"--node-monitor-period=1s", "--node-status-update-frequency=1s"}
}

// firstInstance is the number of the first instance of Nodes' scenarios.
const firstInstance = 0x100

// cast makes scenarios of a Node each, with instances of their own.
type cast struct {
	scenarios []Scenario
	next      int
}

// add adds one; without an instance the Node has the usual one.
func (c *cast) add(name string, n Node, s ...Step) {
	c.none(name, c.tenanted(n), s...)
}

// tenanted gives a Node its instance.
func (c *cast) tenanted(n Node) Node {
	if n.Instance == nil {
		n.Instance = &ec2.Instance{}
	}
	if n.Instance.ID == "" {
		n.Instance.ID = instanceID(firstInstance + c.next)
	}
	c.next++
	if n.Instance.SubnetID == "" {
		n.Instance.SubnetID = PrivateA
	}
	return n
}

// none adds one whose Node has the instance that it has, or none.
func (c *cast) none(name string, n Node, s ...Step) {
	c.scenarios = append(c.scenarios, Scenario{Name: name, Nodes: []Node{n}, Steps: s})
}

const usualID = "aws:///{zone}/{id}"

// gone is what happens when a machine dies.
func gone(how string) []Step {
	return []Step{node(NodeStep{Instance: how, Ready: corev1.ConditionUnknown})}
}

// nodes are the forms of Nodes and instances, and what becomes of them.
func nodes() Group {
	c := &cast{}
	nodeNames(c)
	nodeIDs(c)
	nodeAddresses(c)
	nodeLives(c)
	nodeLabels(c)
	return Group{Name: "nodes", Conf: "[Global]\n", Controllers: nodeControllers(), Args: nodeArgs(), Scenarios: c.scenarios}
}

// nodeNames are Nodes without a provider ID, found by what they are called.
func nodeNames(c *cast) {
	c.add("node-dns", Node{})
	c.add("node-dns-b", Node{Instance: &ec2.Instance{SubnetID: PrivateB}})
	c.add("node-name-id", Node{As: "id"})
	c.add("node-name-id-domain", Node{As: "{id}.eu-central-1.compute.internal"})
	c.add("node-resource-name", Node{Instance: &ec2.Instance{ResourceName: true}})
	c.add("node-name-own", Node{As: "web-1.example.org", Instance: &ec2.Instance{PrivateDNSName: "web-1.example.org"}})
	c.add("node-name-short", Node{As: "ip-10-0-32-99", Instance: &ec2.Instance{PrivateIP: "10.0.32.99"}})
	c.none("node-name-unknown", Node{As: "ip-10-0-32-200.eu-central-1.compute.internal"})
	c.none("node-name-unknown-later", Node{As: "gone.example.org"}, node(NodeStep{Ready: corev1.ConditionUnknown}))
	c.add("node-name-untagged", Node{Untagged: true})
	c.add("node-id-untagged", Node{Untagged: true, ProviderID: usualID})
	c.add("node-name-id-untagged", Node{Untagged: true, As: "id"})
	c.add("node-name-stopped", Node{Instance: &ec2.Instance{State: ec2.Stopped}})
	c.add("node-name-terminated", Node{As: "over.example.org", Instance: &ec2.Instance{State: ec2.Terminated, PrivateDNSName: "over.example.org"}})
	c.none("node-name-id-unknown", Node{As: "i-0ffffffffffffffff"})
	c.none("node-name-id-malformed", Node{As: "i-nothing"})
}

// nodeIDs are the forms of provider IDs.
func nodeIDs(c *cast) {
	c.add("node-id", Node{ProviderID: usualID})
	c.add("node-id-bare", Node{ProviderID: "{id}"})
	c.add("node-id-short", Node{ProviderID: "aws:///{id}"})
	c.add("node-id-two", Node{ProviderID: "aws://{id}"})
	c.add("node-id-host", Node{ProviderID: "aws://host/{zone}/{id}"})
	c.add("node-id-deep", Node{ProviderID: "aws:///{zone}/more/{id}"})
	c.add("node-id-slash", Node{ProviderID: "aws:///{zone}/{id}/"})
	c.add("node-id-zone", Node{ProviderID: "aws:///eu-central-1c/{id}"})
	c.add("node-id-name", Node{As: "other.example.org", ProviderID: usualID})
	c.none("node-id-foreign", Node{As: "foreign.example.org", ProviderID: "gce://project/zone/name"})
	c.none("node-id-hybrid", Node{As: "hybrid.example.org", ProviderID: "eks-hybrid:///eu-central-1/prod/mi-0123456789abcdef0"})
	c.none("node-id-managed", Node{As: "managed.example.org", ProviderID: "aws:///eu-central-1a/mi-0123456789abcdef0"})
	c.none("node-id-malformed", Node{As: "malformed.example.org", ProviderID: "aws:///eu-central-1a/i-nothing"})
	c.none("node-id-unknown", Node{As: "unknown.example.org", ProviderID: "aws:///eu-central-1a/i-0ffffffffffffffff"})
	c.none("node-id-unknown-dead", Node{As: "dead.example.org", Known: true, ProviderID: "aws:///eu-central-1a/i-0fffffffffffffffe"},
		node(NodeStep{Ready: corev1.ConditionUnknown}))
	c.none("node-id-malformed-dead", Node{As: "malformed-dead.example.org", Known: true, ProviderID: "aws:///eu-central-1a/i-nothing"},
		node(NodeStep{Ready: corev1.ConditionUnknown}))
	c.none("node-id-foreign-dead", Node{As: "foreign-dead.example.org", Known: true, ProviderID: "gce://project/zone/name"},
		node(NodeStep{Ready: corev1.ConditionUnknown}))
	c.none("node-id-hybrid-dead", Node{As: "hybrid-dead.example.org", Known: true, ProviderID: "eks-hybrid:///eu-central-1/prod/mi-0123456789abcdef0"},
		node(NodeStep{Ready: corev1.ConditionUnknown}))
}

// nodeAddresses are what instances have of addresses.
func nodeAddresses(c *cast) {
	c.add("node-public", Node{ProviderID: usualID, Instance: &ec2.Instance{SubnetID: PublicA, PublicIP: "203.0.113.10"}})
	c.add("node-two-interfaces", Node{ProviderID: usualID, Instance: &ec2.Instance{Interfaces: []*ec2.NetworkInterface{{}, {DeviceIndex: 1}}}})
	c.add("node-interfaces-unsorted", Node{ProviderID: usualID, Instance: &ec2.Instance{Interfaces: []*ec2.NetworkInterface{
		{DeviceIndex: 2}, {DeviceIndex: 0}, {DeviceIndex: 1}}}})
	c.add("node-two-cards", Node{ProviderID: usualID, Instance: &ec2.Instance{Interfaces: []*ec2.NetworkInterface{
		{}, {NetworkCardIndex: 1}, {DeviceIndex: 1, NetworkCardIndex: 1}}}})
	c.add("node-more-addresses", Node{ProviderID: usualID, Instance: &ec2.Instance{Interfaces: []*ec2.NetworkInterface{
		{PrivateIPs: []string{"10.0.32.61", "10.0.32.62"}}}}})
	c.add("node-ipv6", Node{ProviderID: usualID, Instance: &ec2.Instance{Interfaces: []*ec2.NetworkInterface{{IPv6: []string{"2001:db8::1"}}}}})
	c.add("node-ipv6-only", Node{As: "v6.example.org", ProviderID: usualID, Instance: &ec2.Instance{PrivateDNSName: "v6.example.org",
		Interfaces: []*ec2.NetworkInterface{{IPv6Only: true, IPv6: []string{"2001:db8::2"}}}}})
	c.add("node-interface-comes", Node{ProviderID: usualID}, node(NodeStep{Interface: &ec2.NetworkInterface{DeviceIndex: 1}}))
	c.add("node-public-goes", Node{ProviderID: usualID, Instance: &ec2.Instance{SubnetID: PublicA, PublicIP: "203.0.113.11"}},
		node(NodeStep{Instance: "stop"}), node(NodeStep{Instance: "run"}))
	provided := func(ip string) map[string]string {
		return map[string]string{"alpha.kubernetes.io/provided-node-ip": ip}
	}
	c.add("node-provided", Node{ProviderID: usualID, Annotations: provided("10.0.32.71"), Instance: &ec2.Instance{Interfaces: []*ec2.NetworkInterface{
		{PrivateIPs: []string{"10.0.32.70", "10.0.32.71"}}}}})
	c.add("node-provided-wrong", Node{ProviderID: usualID, Annotations: provided("192.0.2.7")})
}

// nodeLives are what becomes of instances.
func nodeLives(c *cast) {
	c.add("node-stops", Node{ProviderID: usualID}, append(gone("stop"), node(NodeStep{Instance: "run", Ready: corev1.ConditionTrue}))...)
	c.add("node-stops-ready", Node{ProviderID: usualID}, node(NodeStep{Instance: "stop"}))
	c.add("node-stopping", Node{ProviderID: usualID}, gone("stopping")...)
	c.add("node-terminates", Node{ProviderID: usualID}, gone("terminate")...)
	c.add("node-terminates-ready", Node{ProviderID: usualID}, node(NodeStep{Instance: "terminate"}), node(NodeStep{Ready: corev1.ConditionFalse}))
	c.add("node-shutting-down", Node{ProviderID: usualID}, gone("shutting-down")...)
	c.add("node-vanishes", Node{ProviderID: usualID}, gone("vanish")...)
	c.add("node-not-ready", Node{ProviderID: usualID}, node(NodeStep{Ready: corev1.ConditionUnknown}), node(NodeStep{Ready: corev1.ConditionTrue}))
	c.add("node-pending", Node{ProviderID: usualID, Instance: &ec2.Instance{State: ec2.Pending}}, node(NodeStep{Instance: "run"}))
	c.add("node-deleted", Node{ProviderID: usualID}, node(NodeStep{Delete: true}))
	c.add("node-known-dead", Node{As: "known-dead.example.org", Known: true}, gone("terminate")...)
}

// nodeLabels are what else of an instance is written to its Node.
func nodeLabels(c *cast) {
	nodesOf := []string{"nn-1", "nn-2", "nn-3"}
	c.add("node-type", Node{ProviderID: usualID, Instance: &ec2.Instance{Type: "t4g.nano"}})
	c.add("node-topology", Node{ProviderID: usualID, Instance: &ec2.Instance{Type: "p4d.24xlarge", NetworkNodes: nodesOf}})
	c.add("node-topology-none", Node{ProviderID: usualID, Instance: &ec2.Instance{Type: "trn1.2xlarge"}})
	c.add("node-topology-other", Node{ProviderID: usualID, Instance: &ec2.Instance{Type: "c5n.18xlarge", NetworkNodes: nodesOf}})
	c.add("node-topology-there", Node{ProviderID: usualID, Labels: map[string]string{"topology.k8s.aws/network-node-layer-1": "mine"},
		Instance: &ec2.Instance{Type: "p4d.24xlarge", NetworkNodes: nodesOf}})
	c.add("node-zone-id-there", Node{ProviderID: usualID, Labels: map[string]string{"topology.k8s.aws/zone-id": "mine"}})
	c.add("node-labels-there", Node{ProviderID: usualID, Labels: map[string]string{
		"topology.kubernetes.io/zone": "mine", "node.kubernetes.io/instance-type": "mine"}})
}

// nodesFargate are Nodes of Fargate, which have a network interface and no instance: here one of an instance stands for it.
func nodesFargate() Group {
	c := &cast{next: 0x800}
	one := func(ip string) Node {
		name := "ip-" + strings.ReplaceAll(ip, ".", "-") + "." + Region + ".compute.internal"
		return Node{As: "fargate-" + name, ProviderID: "aws:///" + Region + "a/5a1c9bd6ee-0fe65152/fargate-" + name, Instance: &ec2.Instance{PrivateIP: ip}}
	}
	known := func(n Node) Node {
		n.Known = true
		return n
	}
	nameless := one("10.0.32.84")
	nameless.ProviderID = ""
	c.add("fargate-new", one("10.0.32.81"))
	c.add("fargate-not-ready", known(one("10.0.32.82")), node(NodeStep{Ready: corev1.ConditionUnknown}))
	c.add("fargate-gone", known(one("10.0.32.83")), gone("terminate")...)
	c.add("fargate-name", nameless)
	return Group{Name: "nodes-fargate", Conf: "[Global]\n", Controllers: nodeControllers(), Args: nodeArgs(), Scenarios: c.scenarios}
}

// nodesDualStack are Nodes with addresses of both families.
func nodesDualStack() Group {
	c := &cast{next: 0x100}
	c.add("node6-plain", Node{ProviderID: usualID})
	c.add("node6-both", Node{ProviderID: usualID, Instance: &ec2.Instance{Interfaces: []*ec2.NetworkInterface{{IPv6: []string{"2001:db8::11", "2001:db8::12"}}}}})
	c.add("node6-only", Node{As: "v6-only.example.org", ProviderID: usualID, Instance: &ec2.Instance{PrivateDNSName: "v6-only.example.org",
		Interfaces: []*ec2.NetworkInterface{{IPv6Only: true, IPv6: []string{"2001:db8::13"}}}}})
	c.add("node6-two", Node{ProviderID: usualID, Instance: &ec2.Instance{Interfaces: []*ec2.NetworkInterface{
		{IPv6: []string{"2001:db8::14"}}, {DeviceIndex: 1, IPv6: []string{"2001:db8::15"}}}}})
	return Group{Name: "nodes-6", Conf: "[Global]\nNodeIPFamilies = ipv6\nNodeIPFamilies = ipv4\n", Controllers: nodeControllers(), Args: nodeArgs(),
		Scenarios: c.scenarios}
}
