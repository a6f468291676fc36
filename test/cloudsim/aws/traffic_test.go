package aws_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	classicsdk "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	networksdk "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/forward/forwardtest"
)

// carrying is a world whose load balancers carry traffic to the instances a and b in a zone each, whose security group lets in nobody.
type carrying struct {
	*classic
	nodes string
	ids   []string
	stop  []func() // ends what answers on an instance's port 30080
}

const clientAddress = "127.0.0.9"

func newCarrying(t *testing.T) *carrying {
	t.Helper()
	c := &carrying{classic: newClassic(t, aws.Options{Traffic: true})}
	c.vpc = c.region.DefaultVPC().ID
	c.nodes = c.region.AddSecurityGroup(sim.SecurityGroup{VPCID: c.vpc, Name: "nodes", Description: "nodes"}).ID
	c.subnets = nil
	for _, letter := range []string{"a", "b"} {
		i := c.region.AddInstance(sim.Instance{Zone: region + letter, Interfaces: []*sim.NetworkInterface{{Groups: []string{c.nodes}}}})
		c.ids, c.subnets = append(c.ids, i.ID), append(c.subnets, i.SubnetID)
		c.stop = append(c.stop, forwardtest.Backend(t, letter, i.PrivateIP+":30080"))
	}
	return c
}

func (c *carrying) letIn(group string, rule sim.Rule) {
	c.t.Helper()
	rule.Protocol, rule.ToPort = "tcp", rule.FromPort
	must(c.region.Authorize(group, []sim.Rule{rule}))(c.t)
}

// network makes a network load balancer with a listener on port 8080.
func (c *carrying) network(groups ...string) (*types.LoadBalancer, *types.TargetGroup) {
	c.t.Helper()
	b, g := must(c.create("one", groups...))(c.t), must(c.group("k8s-one", 30080))(c.t)
	must(c.listen(b, 8080, g))(c.t)
	var targets []types.TargetDescription
	for _, id := range c.ids {
		targets = append(targets, types.TargetDescription{Id: &id})
	}
	must(c.lb.RegisterTargets(c.t.Context(), &networksdk.RegisterTargetsInput{TargetGroupArn: g.TargetGroupArn, Targets: targets}))(c.t)
	return b, g
}

// answers are those of all addresses that a name leads to, asked twice each, sorted; "-" where nobody answers.
func (c *carrying) answers(name string) string {
	c.t.Helper()
	var out []string
	for _, a := range must(c.Resolve(name))(c.t) {
		for range 2 {
			got, err := forwardtest.Ask(netip.AddrPortFrom(a, 8080).String(), clientAddress)
			if err != nil {
				got = "-"
			}
			out = append(out, strings.TrimSuffix(got, " hello"))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (c *carrying) want(name, answers string) {
	c.t.Helper()
	if got := c.answers(name); got != answers {
		c.t.Errorf("%q answer, want %q", got, answers)
	}
}

func TestNetworkLoadBalancerCarriesTrafficWithinItsZones(t *testing.T) {
	c := newCarrying(t)
	b, g := c.network()
	name := *b.DNSName
	c.want(name, "- - - -") // the instances let nobody in
	c.letIn(c.nodes, sim.Rule{FromPort: 30080, CIDR: clientAddress + "/32"})
	c.want(name, "a a b b")
	c.region.Stop(c.ids[0])
	c.want(name, "b b") // the name leads to nobody in the first zone
	c.region.Run(c.ids[0])
	set := func(in *networksdk.ModifyLoadBalancerAttributesInput) {
		must(c.lb.ModifyLoadBalancerAttributes(t.Context(), in))(t)
	}
	set(&networksdk.ModifyLoadBalancerAttributesInput{LoadBalancerArn: b.LoadBalancerArn, Attributes: []types.LoadBalancerAttribute{
		{Key: sdk.String("load_balancing.cross_zone.enabled"), Value: sdk.String("true")},
	}})
	c.want(name, "a a b b")
	c.stop[0]()
	c.want(name, "b b b b") // from both addresses
	c.setGroup(g, "preserve_client_ip.enabled", "false")
	c.want(name, "- - - -") // the load balancer's own address is let in nowhere
	c.letIn(c.nodes, sim.Rule{FromPort: 30080, CIDR: "127.0.0.0/8"})
	c.want(name, "b b b b")
	c.setGroup(g, "proxy_protocol_v2.enabled", "true")
	c.want(name, "b  b  b  b ") // the first line is the protocol's
	must(c.lb.DeleteLoadBalancer(t.Context(), &networksdk.DeleteLoadBalancerInput{LoadBalancerArn: b.LoadBalancerArn}))(t)
	if at, err := c.Resolve(name); err == nil {
		t.Errorf("the deleted load balancer's name leads to %v", at)
	}
}

func (c *carrying) setGroup(g *types.TargetGroup, key, value string) {
	c.t.Helper()
	must(c.lb.ModifyTargetGroupAttributes(c.t.Context(), &networksdk.ModifyTargetGroupAttributesInput{
		TargetGroupArn: g.TargetGroupArn, Attributes: []types.TargetGroupAttribute{{Key: &key, Value: &value}},
	}))(c.t)
}

func TestNetworkLoadBalancersSecurityGroupsDecideWhoComes(t *testing.T) {
	c := newCarrying(t)
	own := c.region.AddSecurityGroup(sim.SecurityGroup{VPCID: c.vpc, Name: "own", Description: "own"}).ID
	b, _ := c.network(own)
	c.letIn(c.nodes, sim.Rule{FromPort: 30080, Group: own})
	c.want(*b.DNSName, "- - - -")
	c.letIn(own, sim.Rule{FromPort: 8080, CIDR: "127.0.0.8/32"})
	c.want(*b.DNSName, "- - - -") // somebody else
	c.letIn(own, sim.Rule{FromPort: 8080, CIDR: clientAddress + "/32"})
	c.want(*b.DNSName, "a a b b")
}

func TestClassicLoadBalancerCarriesTraffic(t *testing.T) {
	c := newCarrying(t)
	name := must(c.make("one", listener(8080, 30080)))(t)
	var members []elbtypes.Instance
	for _, id := range c.ids {
		members = append(members, elbtypes.Instance{InstanceId: &id})
	}
	must(c.client.RegisterInstancesWithLoadBalancer(t.Context(), &classicsdk.RegisterInstancesWithLoadBalancerInput{
		LoadBalancerName: sdk.String("one"), Instances: members}))(t)
	own := c.region.AddSecurityGroup(sim.SecurityGroup{VPCID: c.vpc, Name: "own", Description: "own"}).ID
	must(c.client.ApplySecurityGroupsToLoadBalancer(t.Context(), &classicsdk.ApplySecurityGroupsToLoadBalancerInput{
		LoadBalancerName: sdk.String("one"), SecurityGroups: []string{own}}))(t)
	c.letIn(own, sim.Rule{FromPort: 8080, CIDR: "0.0.0.0/0"})
	c.want(name, "- - - -")
	c.letIn(c.nodes, sim.Rule{FromPort: 30080, Group: own})
	c.want(name, "a a b b")
	must(c.client.DeregisterInstancesFromLoadBalancer(t.Context(), &classicsdk.DeregisterInstancesFromLoadBalancerInput{
		LoadBalancerName: sdk.String("one"), Instances: members[:1]}))(t)
	c.want(name, "b b")
	must(c.client.DeleteLoadBalancerListeners(t.Context(), &classicsdk.DeleteLoadBalancerListenersInput{
		LoadBalancerName: sdk.String("one"), LoadBalancerPorts: []int32{8080}}))(t)
	c.want(name, "- -")
}
