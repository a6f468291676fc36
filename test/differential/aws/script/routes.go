package script

import (
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

// routes are the routes of Nodes' Pods.
func routes() []Group {
	group := func(name string, c *cast) Group {
		return Group{Name: name, Conf: "[Global]\n", Controllers: []string{"node-route-controller"}, Scenarios: c.scenarios, Args: []string{
			"--configure-cloud-routes=true", "--allocate-node-cidrs=true", "--cluster-cidr=10.100.0.0/16", "--route-reconciliation-period=2s"}}
	}
	pods := func(cidrs ...string) Node { return Node{Known: true, ProviderID: usualID, PodCIDRs: cidrs} }
	c := &cast{next: 0x200}
	c.add("route-plain", pods("10.100.0.0/24"))
	c.add("route-none", pods())
	// No instance is stopped here: the existing manager deletes such a route and makes it again in each round, without an end.
	two := pods("10.100.4.0/24")
	two.Instance = &ec2.Instance{Interfaces: []*ec2.NetworkInterface{{}, {DeviceIndex: 1}}}
	c.add("route-two-interfaces", two)
	there := pods("10.100.5.0/24")
	there.Instance = &ec2.Instance{Interfaces: []*ec2.NetworkInterface{{NoSourceDestCheck: true}}}
	c.add("route-forwards", there)
	// The existing manager lists no routes while there is one to an instance that it finds no Node of: each such case has a group
	// of its own.
	goes, ends := &cast{next: 0x600}, &cast{next: 0x700}
	goes.add("route-beside-goes", pods("10.100.6.0/24"))
	goes.add("route-goes", pods("10.100.1.0/24"), node(NodeStep{Delete: true}), node(NodeStep{Instance: "terminate"}), node(NodeStep{Instance: "vanish"}))
	ends.add("route-beside-ends", pods("10.100.7.0/24"))
	ends.add("route-ends", pods("10.100.2.0/24"), node(NodeStep{Instance: "terminate"}), node(NodeStep{Delete: true}))
	gone := &cast{next: 0x300}
	gone.add("route-beside-gone", pods("10.100.8.0/24"))
	gone.scenarios = append(gone.scenarios, Scenario{Name: "route-gone", Given: []ec2.Route{{Destination: "10.100.9.0/24", InstanceID: "i-0fffffffffffffff1"}}})
	outside := &cast{next: 0x400}
	outside.add("route-beside-outside", pods("10.100.10.0/24"))
	outside.scenarios = append(outside.scenarios, Scenario{Name: "route-outside", Given: []ec2.Route{{Destination: "10.99.0.0/24", GatewayID: "vgw-0000000000000000a"}}})
	return []Group{group("routes", c), group("routes-goes", goes), group("routes-ends", ends), group("routes-gone", gone), group("routes-outside", outside)}
}

// tags are the tags that the existing manager's own controller gives instances.
func tags() Group {
	c := &cast{next: 0x500}
	c.add("tag-plain", Node{Known: true, ProviderID: usualID})
	c.add("tag-new", Node{ProviderID: usualID})
	c.add("tag-goes", Node{Known: true, ProviderID: usualID}, node(NodeStep{Delete: true}))
	c.add("tag-untagged", Node{Known: true, Untagged: true, ProviderID: usualID})
	c.add("tag-no-id", Node{Known: true}, node(NodeStep{Patch: `{"metadata":{"labels":{"changed":"true"}}}`}))
	c.add("tag-terminates", Node{Known: true, ProviderID: usualID}, node(NodeStep{Instance: "terminate"}))
	c.none("tag-foreign", Node{As: "tag-foreign.example.org", Known: true, ProviderID: "gce://project/zone/name"})
	return Group{Name: "tags", Conf: "[Global]\n", Controllers: []string{"tagging"}, Args: []string{"--tags=team=a,env=prod", "--resources=instance"}, Scenarios: c.scenarios}
}
