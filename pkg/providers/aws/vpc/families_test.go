package vpc_test

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

func TestWhereLoadBalancersAreReachedByIPv6(t *testing.T) {
	w := start(t, "", awssim.Options{})
	main := w.EC2.MainRouteTable(w.VPC.ID).ID
	w.EC2.AddRoute(main, ec2.Route{Destination: "0.0.0.0/0", GatewayID: "igw-0123456789abcdef0"})
	reached := func(internal bool) (n int) {
		t.Helper()
		w.restart("")
		subnets, err := w.Network.Subnets(t.Context(), internal, nil)
		if err != nil || len(subnets) != len(w.Cloud.Subnets) {
			t.Fatalf("%d subnets, %v", len(subnets), err)
		}
		for _, s := range subnets {
			if s.ReachedByIPv6(internal) {
				n++
			}
		}
		return n
	}
	want := func(inside, outside int) {
		t.Helper()
		if i, o := reached(true), reached(false); i != inside || o != outside {
			t.Errorf("%d inside and %d from outside, want %d and %d", i, o, inside, outside)
		}
	}
	want(0, 0)
	w.EC2.SetSubnetIPv6(w.Cloud.Subnets[0].ID, "2001:db8:0:1::/64")
	want(1, 0)
	w.DualStack()
	want(3, 3)
	w.EC2.SetSubnetIPv6(w.Cloud.Subnets[1].ID, "")
	want(2, 2)
}

func TestNodesLetClientsInByIPv6(t *testing.T) {
	w := start(t, "", awssim.Options{})
	nodes := w.group("nodes", true)
	i := w.node(nodes)
	some, all := nlb("a1", 30080, i), nlb("a2", 30081, i)
	some.Clients, some.Subnets = prefixes("2001:db8:ffff::/48"), prefixes("2001:db8:0:1::/64")
	all.Clients, all.Subnets = prefixes("::/0"), prefixes("2001:db8:0:1::/64") // which covers the check
	for name, want := range map[string]vpc.NodeRules{"web": some, "web2": all} {
		if err := w.EnsureNodeRules(t.Context(), ref(name), want); err != nil {
			t.Fatal(err)
		}
	}
	w.wantInbound(nodes,
		"tcp 30080-30080 2001:db8:ffff::/48 kubernetes.io/rule/nlb/client=a1", "tcp 30080-30080 2001:db8:0:1::/64 kubernetes.io/rule/nlb/health=a1",
		"icmpv6 2-0 2001:db8:ffff::/48 kubernetes.io/rule/nlb/mtu",
		"tcp 30081-30081 ::/0 kubernetes.io/rule/nlb/client=a2", "icmpv6 2-0 ::/0 kubernetes.io/rule/nlb/mtu")
	for name, balancer := range map[string]string{"web": "a1", "web2": "a2"} {
		if err := w.DeleteNodeRules(t.Context(), ref(name), vpc.NodeRules{LoadBalancer: balancer}); err != nil {
			t.Fatal(err)
		}
	}
	w.wantInbound(nodes)
}
