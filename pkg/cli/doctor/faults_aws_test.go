package doctor

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/conformance/aws"
)

// faultsOfAWS are those that only AWS can have.
var faultsOfAWS = []fault{
	{name: "the VPC does not exist", only: "aws", check: "cloud", object: "VPC vpc-0000000000000dead", message: "no subnet", code: 1, conf: func(s *set, conf string) string {
		return strings.Replace(conf, s.AWS.VPC.ID, "vpc-0000000000000dead", 1)
	}},
	{name: "the subnet is not of the VPC", only: "aws", check: "cloud", object: "subnet subnet-0000000000000dead", message: "SubnetID in [Global]", code: 1, conf: func(s *set, conf string) string {
		return strings.Replace(conf, s.AWS.Subnets[0].ID, "subnet-0000000000000dead", 1)
	}},
	{name: "the route table of pod routes does not exist", only: "aws", check: "cloud", object: "route table rtb-0000000000000dead", message: "RouteTableID in [Global]", code: 1,
		conf: more("RouteTableID = rtb-0000000000000dead")},
	{name: "the security group of load balancers does not exist", only: "aws", check: "cloud", object: "security group sg-0000000000000dead", message: "ElbSecurityGroup in [Global]", code: 1,
		conf: more("ElbSecurityGroup = sg-0000000000000dead")},
	{name: "no instance has the cluster's tag", only: "aws", check: "cloud", object: "tag kubernetes.io/cluster/another", message: "no instance that runs in the VPC", code: 0, conf: func(_ *set, conf string) string {
		return strings.Replace(conf, "KubernetesClusterID = "+aws.ClusterID, "KubernetesClusterID = another", 1)
	}},
	{name: "volumes may not be read", only: "aws", check: "cloud", object: "permission ec2:DescribeVolumes", message: "allow ec2:DescribeVolumes in the IAM policy", code: 1, cluster: without("ec2:DescribeVolumes")},
	{name: "subnets may not be read", only: "aws", check: "cloud", object: "permission ec2:DescribeSubnets", message: "allow ec2:DescribeSubnets in the IAM policy", code: 1, cluster: without("ec2:DescribeSubnets")},
	{name: "load balancers may not be read", only: "aws", check: "cloud", object: "Elastic Load Balancing", message: "Services of type LoadBalancer are not served", code: 1,
		cluster: without("elasticloadbalancing:DescribeLoadBalancers")},
	{name: "security groups may not be made", only: "aws", check: "cloud", object: "permission ec2:CreateSecurityGroup", message: "allow ec2:CreateSecurityGroup in the IAM policy", code: 1,
		cluster: without("ec2:CreateSecurityGroup")},
	{name: "Nodes' security groups may not be opened", only: "aws", check: "cloud", object: "permission ec2:AuthorizeSecurityGroupIngress", message: "IAM policy", code: 1,
		cluster: without("ec2:AuthorizeSecurityGroupIngress")},
	{name: "pod routes may not be set", only: "aws", check: "cloud", object: "permission ec2:CreateRoute", message: "IAM policy", code: 1, cluster: without("ec2:CreateRoute")},
	{name: "the quota of network load balancers is used up", only: "aws", check: "cloud", object: "quota network-load-balancers", message: "0 of 0 are used", code: 0, cluster: func(s *set) {
		const none = `<DescribeAccountLimitsResponse xmlns="http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/"><DescribeAccountLimitsResult><Limits><member>` +
			`<Name>network-load-balancers</Name><Max>0</Max></member></Limits></DescribeAccountLimitsResult></DescribeAccountLimitsResponse>`
		body := none
		s.t.Cleanup(s.AWS.AddFault(apitest.Fault{Service: "elbv2", Action: "DescribeAccountLimits", Status: http.StatusOK, Body: &body}))
	}},
	{name: "this machine's clock is wrong", only: "aws", check: "cloud", object: "clock", message: "differs from AWS' by 3m", code: 0, cluster: func(s *set) {
		date := time.Now().Add(-3*time.Minute - 30*time.Second).UTC().Format(http.TimeFormat)
		s.t.Cleanup(s.AWS.AddFault(apitest.Fault{Service: "ec2", Action: "DescribeAvailabilityZones", Header: http.Header{"Date": {date}}}))
	}},
	{name: "an instance has several security groups and none is the cluster's", only: "aws", check: "cloud", object: "security groups of instances", message: "none with the tag", code: 1, cluster: func(s *set) {
		var groups []string
		for n := range 2 {
			g := s.AWS.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: s.AWS.VPC.ID, Name: fmt.Sprint("untagged-", n), Description: "d"})
			groups = append(groups, g.ID)
		}
		s.instance(ec2.Instance{SubnetID: s.AWS.Subnets[0].ID, Interfaces: []*ec2.NetworkInterface{{Groups: groups}}})
	}},
	{name: "a security group of Nodes is full", only: "aws", check: "cloud", object: "security group", message: "it has 60 inbound rules", code: 0, cluster: func(s *set) {
		var rules []ec2.Rule
		for n := range 60 {
			rules = append(rules, ec2.Rule{Protocol: "tcp", FromPort: n, ToPort: n, CIDR: "192.0.2.0/24"})
		}
		g := s.AWS.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: s.AWS.VPC.ID, Name: "full", Description: "d", Rules: rules, Tags: clusterTag})
		s.instance(ec2.Instance{SubnetID: s.AWS.Subnets[0].ID, Interfaces: []*ec2.NetworkInterface{{Groups: []string{g.ID}}}})
	}},
	{name: "a zone with instances has no subnet of load balancers", only: "aws", check: "cloud", object: "zone ", message: "load balancers get no subnet", code: 0, cluster: func(s *set) {
		s.instance(ec2.Instance{SubnetID: s.AWS.Subnets[1].ID})
		s.anothers(s.AWS.Subnets[1].ID)
	}},
	{name: "a subnet of load balancers has no address left", only: "aws", check: "cloud", object: "subnet ", message: "it has 7 free IPv4 addresses", code: 0, cluster: func(s *set) {
		small := s.AWS.EC2.AddSubnet(ec2.Subnet{VPCID: s.AWS.VPC.ID, CIDR: "10.0.255.0/28", Zone: s.AWS.Subnets[2].Zone, Tags: map[string]string{"kubernetes.io/role/elb": "1"}})
		for range 4 {
			s.instance(ec2.Instance{SubnetID: small.ID})
		}
		s.t.Cleanup(func() { s.must(s.AWS.EC2.CreateTags([]string{small.ID}, anothersTag)) })
	}},
	{name: "no subnet is the cluster's", only: "aws", check: "cloud", object: "internal load balancers", message: "no subnet of VPC", code: 1,
		conf: func(_ *set, conf string) string { // one that is named is taken for want of another
			lines := slices.DeleteFunc(strings.Split(conf, "\n"), func(l string) bool { return strings.HasPrefix(l, "SubnetID") })
			return strings.Join(lines, "\n")
		},
		cluster: func(s *set) {
			for _, n := range s.AWS.Subnets {
				s.anothers(n.ID)
			}
		}},
}

var (
	clusterTag  = map[string]string{"kubernetes.io/cluster/" + aws.ClusterID: "owned"}
	anothersTag = map[string]string{"kubernetes.io/cluster/another": "owned"}
)

// without has doctor be somebody who may do what the policy that ships allows, but for one action.
func without(action string) func(*set) {
	return func(s *set) {
		actions, err := manifests.IAMActions()
		s.must(err)
		actions = slices.DeleteFunc(actions, func(a string) bool { return a == action })
		keys := s.AWS.AddUser(awssim.Principal{Account: apitest.Account, Name: "limited", Actions: actions})
		s.t.Setenv("AWS_ACCESS_KEY_ID", keys.AccessKeyID)
		s.t.Setenv("AWS_SECRET_ACCESS_KEY", keys.SecretAccessKey)
	}
}

// instance adds one of the cluster's until the test ends.
func (s *set) instance(i ec2.Instance) {
	i.Tags = clusterTag
	id := s.AWS.EC2.AddInstance(i).ID
	s.t.Cleanup(func() { s.AWS.EC2.Terminate(id) })
}

// anothers gives a subnet to another cluster until the test ends.
func (s *set) anothers(subnet string) {
	s.must(s.AWS.EC2.CreateTags([]string{subnet}, anothersTag))
	s.t.Cleanup(func() {
		s.must(s.AWS.EC2.DeleteTags([]string{subnet}, map[string]*string{"kubernetes.io/cluster/another": nil}))
	})
}
