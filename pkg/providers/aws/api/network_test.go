package api_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
)

func TestEveryPageOfANetworkIsRead(t *testing.T) {
	w := apitest.StartWith(t, awssim.Options{ELB: elb.Options{LoadBalancers: 500}})
	c, _ := w.Client(conf, cloud.Options{})
	for n := range 1001 {
		w.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: w.VPC.ID, Name: fmt.Sprint("g", n), Description: "d"})
	}
	for range 100 {
		w.EC2.AddRouteTable(ec2.RouteTable{VPCID: w.VPC.ID})
	}
	for n := range 401 {
		_, err := w.ELB(apitest.Account, apitest.Region).Create(elb.LoadBalancer{Name: fmt.Sprint("b", n), Subnets: []elb.Subnet{{ID: w.Subnets[0].ID}},
			Listeners: []elb.Listener{{Port: 1, InstancePort: 1, Protocol: "TCP"}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	in := api.Filter("vpc-id", w.VPC.ID)
	groups, err := c.SecurityGroups(t.Context(), in)
	if err != nil || len(groups) != 1002 { // the default one, too
		t.Errorf("%d groups, %v", len(groups), err)
	}
	tables, err := c.RouteTables(t.Context(), in)
	if err != nil || len(tables) != 101 {
		t.Errorf("%d route tables, %v", len(tables), err)
	}
	balancers, err := c.ClassicBalancers(t.Context())
	if err != nil || len(balancers) != 401 {
		t.Errorf("%d load balancers, %v", len(balancers), err)
	}
	subnets, err := c.Subnets(t.Context(), in)
	if err != nil || len(subnets) != 3 {
		t.Errorf("%d subnets, %v", len(subnets), err)
	}
	want := []string{"DescribeSecurityGroups", "DescribeSecurityGroups", "DescribeRouteTables", "DescribeRouteTables", "DescribeLoadBalancers", "DescribeLoadBalancers", "DescribeSubnets"}
	if got := w.Actions(); !slices.Equal(got, want) {
		t.Errorf("requests %v", got)
	}
}

func TestClassicLoadBalancerThatIsNotThere(t *testing.T) {
	w := apitest.Start(t)
	c, _ := w.Client(conf, cloud.Options{})
	if b, err := c.ClassicBalancer(t.Context(), "a"); b != nil || err != nil {
		t.Errorf("%+v, %v", b, err)
	}
	if err := c.RegisterClassic(t.Context(), "a", []string{"i-1"}); !cloud.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	if err := c.DeleteClassicBalancer(t.Context(), "a"); err != nil {
		t.Errorf("%v", err)
	}
	if err := c.DeleteSecurityGroup(t.Context(), "sg-0123456789abcdef0"); !cloud.IsNotFound(err) {
		t.Errorf("%v", err)
	}
}
