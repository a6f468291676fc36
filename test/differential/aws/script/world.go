package script

import (
	"fmt"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/differential/steps"
)

// What stands in the cloud of every group, by IDs that scenarios name.
const (
	Account = "111122223333"
	Region  = "eu-central-1"

	VPC         = "vpc-0000000000000000a"
	PublicA     = "subnet-0000000000000aa01" // 10.0.0.0/20
	PublicB     = "subnet-0000000000000aa02" // 10.0.16.0/20
	PrivateA    = "subnet-0000000000000bb01" // 10.0.32.0/20
	PrivateB    = "subnet-0000000000000bb02" // 10.0.48.0/20
	OtherA      = "subnet-0000000000000cc01" // of another cluster, public, in zone a
	MainTable   = "rtb-0000000000000000a"    // has the cluster's tag
	PublicTable = "rtb-0000000000000000b"
	NodeGroup   = "sg-0000000000000000a" // has the cluster's tag
	OwnGroup    = "sg-0000000000000000b"
	TwoGroup    = "sg-0000000000000000c"
	EIP1        = "eipalloc-00000000000000001"
	EIP2        = "eipalloc-00000000000000002"
	Self        = "i-000000000000000ff"
)

// ClusterTag is the cluster's.
const ClusterTag = "kubernetes.io/cluster/" + ClusterID

// instanceID is the ID of an instance by number.
func instanceID(number int) string { return fmt.Sprintf("i-%017x", number) }

// worker is a usual Node of a cluster, by number.
func worker(number int, subnet string, labels map[string]string) Node {
	return Node{Known: true, ProviderID: "aws:///{zone}/{id}", Labels: labels, Instance: &ec2.Instance{
		ID: instanceID(number), SubnetID: subnet, Interfaces: []*ec2.NetworkInterface{{Groups: []string{NodeGroup}}}}}
}

// workers are two usual Nodes.
func workers() []Node {
	return []Node{worker(1, PrivateA, map[string]string{"zone": "a", "disk": "fast"}), worker(2, PrivateB, map[string]string{"zone": "b"})}
}

func third() *Node {
	n := worker(3, PrivateA, map[string]string{"zone": "a"})
	return &n
}

// service is a step with a Service.
func service(s steps.Step) Step { return Step{Service: &s} }

// node is a step with the scenario's Node.
func node(s NodeStep) Step { return Step{Node: &s} }

// Groups are all scenarios, in a fixed order.
func Groups() []Group {
	return slices.Concat([]Group{nodes(), nodesDualStack(), nodesFargate()}, classicServices(), networkServices(), routes(), []Group{tags(), leftServices()})
}
