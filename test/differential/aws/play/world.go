package play

import (
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// Place is a simulated cloud in which a group is played.
type Place struct {
	Sim     *awssim.Sim
	Cloud   *snapshot.Cloud
	Symbols *symbol.Symbols
	// Env are variables with which a manager takes the simulator for AWS and logs in.
	Env []string
}

// made are what AWS makes up: IDs of security groups, the names of load balancers, which come from UIDs, those of their security
// groups, and DNS names.
const made = `sg-[0-9a-f]{17}|\b[0-9a-f]{10}\b|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.elb(?:\.[a-z0-9-]+)*\.amazonaws\.com`

// Make makes the cloud of a World. The caller must close the Sim.
func Make(w script.World) (*Place, error) {
	sim, err := awssim.Start(awssim.Options{
		EC2: ec2.Options{RulesPerGroup: 10000}, ELB: elb.Options{LoadBalancers: 1000}, ELBv2: elbv2.Options{LoadBalancers: 1000},
	})
	if err != nil {
		return nil, err
	}
	keys := sim.AddUser(awssim.Principal{Account: script.Account, Name: "ccm", Actions: []string{"ec2:*", "elasticloadbalancing:*"}})
	e := sim.EC2(script.Account, script.Region)
	furnish(e)
	if w.DualStack {
		dualStack(e)
	}
	sim.SetInstance(script.Account, script.Region, script.Self)
	return &Place{
		Sim: sim, Symbols: symbol.New("", "", made),
		Cloud: &snapshot.Cloud{EC2: e, Classic: sim.ELB(script.Account, script.Region), Network: sim.ELBv2(script.Account, script.Region),
			Given: []string{script.NodeGroup, script.OwnGroup, script.TwoGroup}, Table: script.MainTable,
			Usual: map[string]string{script.ClusterTag: "owned"}},
		Env: append(sim.Env(), "AWS_ACCESS_KEY_ID="+keys.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+keys.SecretAccessKey,
			"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null"),
	}, nil
}

// dualStack gives the subnets ranges of IPv6, and the public ones a route to the internet.
func dualStack(e *ec2.Region) {
	for id, part := range map[string]string{script.PublicA: "a1", script.PublicB: "a2", script.PrivateA: "b1", script.PrivateB: "b2"} {
		e.SetSubnetIPv6(id, "2001:db8:0:"+part+"::/64")
	}
	e.AddRoute(script.PublicTable, ec2.Route{Destination: "::/0", GatewayID: "igw-0000000000000000a"})
}

// furnish makes what stands in the cloud.
func furnish(e *ec2.Region) {
	owned := map[string]string{script.ClusterTag: "owned"}
	tags := func(name, role string) map[string]string {
		return map[string]string{script.ClusterTag: "shared", "Name": name, role: "1"}
	}
	const public, private = "kubernetes.io/role/elb", "kubernetes.io/role/internal-elb"
	e.AddVPC(ec2.VPC{ID: script.VPC})
	zoneA, zoneB := script.Region+"a", script.Region+"b"
	for _, s := range []ec2.Subnet{
		{ID: script.PublicA, CIDR: "10.0.0.0/20", Zone: zoneA, Tags: tags("public-a", public)},
		{ID: script.PublicB, CIDR: "10.0.16.0/20", Zone: zoneB, Tags: tags("public-b", public)},
		{ID: script.PrivateA, CIDR: "10.0.32.0/20", Zone: zoneA, Tags: tags("private-a", private)},
		{ID: script.PrivateB, CIDR: "10.0.48.0/20", Zone: zoneB, Tags: tags("private-b", private)},
		{ID: script.OtherA, CIDR: "10.0.64.0/20", Zone: zoneA, Tags: map[string]string{"kubernetes.io/cluster/other": "owned", "Name": "other-a"}},
	} {
		s.VPCID = script.VPC
		e.AddSubnet(s)
	}
	// The cluster has a table of its own, where its Pods' routes go; its private subnets have it.
	e.AddRouteTable(ec2.RouteTable{ID: script.MainTable, VPCID: script.VPC, Tags: owned, Associations: []ec2.Association{
		{SubnetID: script.PrivateA}, {SubnetID: script.PrivateB}}})
	e.AddRouteTable(ec2.RouteTable{ID: script.PublicTable, VPCID: script.VPC, Associations: []ec2.Association{
		{SubnetID: script.PublicA}, {SubnetID: script.PublicB}, {SubnetID: script.OtherA}},
		Routes: []ec2.Route{{Destination: "0.0.0.0/0", GatewayID: "igw-0000000000000000a"}}})
	e.AddSecurityGroup(ec2.SecurityGroup{ID: script.NodeGroup, VPCID: script.VPC, Name: "nodes", Description: "Nodes", Tags: owned})
	e.AddSecurityGroup(ec2.SecurityGroup{ID: script.OwnGroup, VPCID: script.VPC, Name: "own", Description: "a user's"})
	e.AddSecurityGroup(ec2.SecurityGroup{ID: script.TwoGroup, VPCID: script.VPC, Name: "two", Description: "a user's"})
	e.AddAddress(ec2.Address{ID: script.EIP1, PublicIP: "198.51.100.1"})
	e.AddAddress(ec2.Address{ID: script.EIP2, PublicIP: "198.51.100.2"})
	e.AddInstance(ec2.Instance{ID: script.Self, SubnetID: script.PrivateA, PrivateIP: "10.0.47.250", Tags: owned,
		Interfaces: []*ec2.NetworkInterface{{Groups: []string{script.NodeGroup}, PrivateIPs: []string{"10.0.47.250"}}}})
}

// PlaneOptions are those of a control plane for dual-stack Services.
func PlaneOptions() controlplane.Options {
	return controlplane.Options{APIServerArgs: map[string][]string{"service-cluster-ip-range": {"10.96.0.0/16,fd00:10::/112"}}}
}
