package vpc_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

// nlb are the rules of a network load balancer.
func nlb(name string, port int32, instances ...string) vpc.NodeRules {
	return vpc.NodeRules{LoadBalancer: name, Instances: instances, Protocol: "tcp", Ports: []int32{port}, Clients: prefixes("10.1.0.0/16"),
		HealthPorts: []int32{port}, Subnets: prefixes("10.0.0.0/18")}
}

func TestNodesLetClassicLoadBalancersIn(t *testing.T) {
	w := start(t, "", awssim.Options{})
	nodes, other, own := w.group("nodes", true), w.group("other", false), w.group("k8s-elb-a1", true)
	pod := w.group("pods", false)
	w.allow(nodes, []ec2.Rule{{Protocol: "-1", Group: nodes}})
	one, two := w.node(nodes, other), w.node(pod)
	want := vpc.NodeRules{LoadBalancer: "a1", Instances: []string{one, two}, Source: own}
	if err := w.EnsureNodeRules(t.Context(), ref("web"), want); err != nil {
		t.Fatal(err)
	}
	w.wantActions("DescribeSecurityGroups", "DescribeInstances", "AuthorizeSecurityGroupIngress", "AuthorizeSecurityGroupIngress")
	w.wantInbound(nodes, "-1 "+nodes, "-1 "+own)
	w.wantInbound(pod, "-1 "+own) // its only one
	w.wantInbound(other)
	if err := w.EnsureNodeRules(t.Context(), ref("web"), want); err != nil {
		t.Fatal(err)
	}
	w.wantActions("DescribeSecurityGroups")
	want.Instances = nil
	if err := w.EnsureNodeRules(t.Context(), ref("web"), want); err != nil {
		t.Fatal(err)
	}
	w.wantInbound(nodes, "-1 "+nodes)
	w.wantInbound(pod, "-1 "+own) // not the cluster's, so only when the load balancer goes
	if err := w.DeleteNodeRules(t.Context(), ref("web"), want); err != nil {
		t.Fatal(err)
	}
	w.wantInbound(pod)
}

// kubernetes/cloud-provider-aws#1472: pod traffic was cut, as the rule of the nodes among themselves went with the load balancer's.
func TestComplaint1472OneSourceOfARuleIsRevoked(t *testing.T) {
	w := start(t, "", awssim.Options{})
	nodes, own, friend := w.group("nodes", true), w.group("k8s-elb-a1", true), w.group("friend", false)
	w.allow(nodes, []ec2.Rule{{Protocol: "-1", Group: nodes}, {Protocol: "-1", Group: friend}, {Protocol: "-1", Group: own}, {Protocol: "tcp", FromPort: 22, ToPort: 22, Group: own}})
	if err := w.DeleteNodeRules(t.Context(), ref("web"), vpc.NodeRules{LoadBalancer: "a1", Source: own}); err != nil {
		t.Fatal(err)
	}
	w.wantInbound(nodes, "-1 "+nodes, "-1 "+friend, "tcp 22-22 "+own)
}

// kubernetes/cloud-provider-aws#666: several groups with the cluster's tag were an error.
func TestComplaint666AllTaggedGroupsOfAnInstanceAreUsed(t *testing.T) {
	w := start(t, "", awssim.Options{})
	a, b, c, own := w.group("a", true), w.group("b", true), w.group("c", false), w.group("k8s-elb-a1", true)
	if err := w.EnsureNodeRules(t.Context(), ref("web"), vpc.NodeRules{LoadBalancer: "a1", Source: own, Instances: []string{w.node(a, b, c)}}); err != nil {
		t.Fatal(err)
	}
	w.wantInbound(a, "-1 "+own)
	w.wantInbound(b, "-1 "+own)
	w.wantInbound(c)
}

// An instance of which its groups do not tell where to let in keeps no other from it, and loses nothing itself.
func TestInstanceWithoutAGroupToOpenKeepsNobodyOut(t *testing.T) {
	w := start(t, "", awssim.Options{})
	nodes, c, d, own := w.group("nodes", true), w.group("c", false), w.group("d", false), w.group("k8s-elb-a1", true)
	w.allow(c, []ec2.Rule{{Protocol: "-1", Group: own}}) // as long as it was the instance's only one
	node, bad, more := w.node(nodes), w.node(c, d), w.node(d, c)
	var all sync.WaitGroup
	all.Go(func() {
		err := w.EnsureNodeRules(t.Context(), ref("web"), vpc.NodeRules{LoadBalancer: "a1", Source: own, Instances: []string{node, bad, more}})
		if cloud.KindOf(err) != cloud.KindFailed || !strings.Contains(fmt.Sprint(err), " has 2 security groups (") ||
			!strings.Contains(fmt.Sprint(err), "none with the tag "+clusterTag) || !strings.Contains(fmt.Sprint(err), "give that tag to the one") || !strings.Contains(fmt.Sprint(err), "1 instances more") {
			t.Errorf("%v", err)
		}
	})
	all.Go(func() {
		if err := w.EnsureNodeRules(t.Context(), ref("good"), nlb("a2", 30080, node)); err != nil {
			t.Errorf("%v", err)
		}
	})
	all.Wait()
	w.wantInbound(nodes, "-1 "+own, "tcp 30080-30080 10.1.0.0/16 kubernetes.io/rule/nlb/client=a2", "tcp 30080-30080 10.0.0.0/18 kubernetes.io/rule/nlb/health=a2", "icmp 3-4 10.1.0.0/16 kubernetes.io/rule/nlb/mtu")
	w.wantInbound(c, "-1 "+own)
	w.wantInbound(d)
}

// An instance that gets another group, of which none tells where to let in, keeps what it was let in by.
func TestInstanceInDoubtKeepsItsRules(t *testing.T) {
	w := start(t, "", awssim.Options{})
	only, more := w.group("only", false), w.group("more", false)
	node := w.node(only)
	want := nlb("a1", 30080, node)
	if err := w.EnsureNodeRules(t.Context(), ref("web"), want); err != nil {
		t.Fatal(err)
	}
	before := w.inbound(only)
	if len(before) == 0 {
		t.Fatal("it is not let in")
	}
	if err := w.EC2.ModifyInstance(node, nil, []string{only, more}); err != nil {
		t.Fatal(err)
	}
	w.restart("")
	if err := w.EnsureNodeRules(t.Context(), ref("web"), want); cloud.KindOf(err) != cloud.KindFailed {
		t.Errorf("%v", err)
	}
	w.wantInbound(only, before...)
	w.wantInbound(more)
}

// A group that cannot be written keeps no other from it, and only those who need it are told.
func TestGroupThatIsDeniedKeepsNoOtherShut(t *testing.T) {
	w := start(t, "", awssim.Options{})
	groups := []string{w.group("a", true), w.group("b", true)}
	slices.Sort(groups) // in which order they are written
	one, two := w.node(groups[0]), w.node(groups[1])
	w.Fail("AuthorizeSecurityGroupIngress", apitest.Fault{Status: http.StatusForbidden, Code: "UnauthorizedOperation", Message: "m"})
	var all sync.WaitGroup
	all.Go(func() {
		err := w.EnsureNodeRules(t.Context(), ref("web"), nlb("a1", 30080, one, two))
		if cloud.KindOf(err) != cloud.KindDenied || !strings.Contains(err.Error(), groups[0]) {
			t.Errorf("%v", err)
		}
	})
	all.Go(func() {
		if err := w.EnsureNodeRules(t.Context(), ref("other"), nlb("a2", 30081, two)); err != nil {
			t.Error(err)
		}
	})
	all.Wait()
	w.wantInbound(groups[0])
	if got := w.inbound(groups[1]); len(got) != 5 {
		t.Errorf("%q", got)
	}
	w.Fail("AuthorizeSecurityGroupIngress", apitest.Fault{Status: http.StatusBadRequest, Code: "InternalOddity", Message: "m"})
	if err := w.EnsureNodeRules(t.Context(), ref("web"), nlb("a1", 30082, one, two)); err == nil || !strings.Contains(err.Error(), groups[0]) {
		t.Errorf("%v", err)
	}
	if got := w.inbound(groups[1]); !strings.Contains(strings.Join(got, ";"), "30082") {
		t.Errorf("%q", got)
	}
}

// kubernetes/kops#4197: deleting one Service revoked the rule of a shared group for all.
func TestComplaint4197RuleOfASharedGroupStaysForOthers(t *testing.T) {
	w := start(t, "", awssim.Options{})
	nodes, shared := w.group("nodes", true), w.group("shared", false)
	want := vpc.NodeRules{LoadBalancer: "a1", Source: shared, SharedSource: true, Instances: []string{w.node(nodes)}}
	if err := w.EnsureNodeRules(t.Context(), ref("web"), want); err != nil {
		t.Fatal(err)
	}
	w.restart("")
	if err := w.DeleteNodeRules(t.Context(), ref("web"), vpc.NodeRules{LoadBalancer: "a1", Source: shared, SharedSource: true}); err != nil {
		t.Fatal(err)
	}
	w.wantInbound(nodes, "-1 "+shared)
}

// A rule of a group that is not a load balancer's own goes with the last that has the group, unless something else has it; the interfaces
// of classic load balancers stay for a while, and whoever asks knows of those.
func TestRuleOfAFormerGroupStaysForWhateverHasIt(t *testing.T) {
	for description, stays := range map[string]bool{"": false, "ELB a1": false, "ELB net/a1/0123456789abcdef": true, "Primary network interface": true} {
		w := start(t, "", awssim.Options{})
		nodes, shared := w.group("nodes", true), w.group("shared", false)
		if err := w.EnsureNodeRules(t.Context(), ref("web"), vpc.NodeRules{LoadBalancer: "a1", Source: shared, SharedSource: true, Instances: []string{w.node(nodes)}}); err != nil {
			t.Fatal(err)
		}
		if description != "" {
			w.EC2.AddInterface(ec2.NetworkInterface{SubnetID: w.Cloud.Subnets[0].ID, Groups: []string{shared}, Managed: true, Description: description})
		}
		if err := w.DeleteNodeRules(t.Context(), ref("web"), vpc.NodeRules{LoadBalancer: "a1", SharedFormer: shared}); err != nil {
			t.Fatal(err)
		}
		if got := len(w.inbound(nodes)) > 0; got != stays {
			t.Errorf("%q has the group: the rule stays: %t", description, got)
		}
	}
}

// A Service that names what is no group of the VPC must neither open the Nodes, nor keep the others' rules from being made.
func TestASourceThatIsNoGroupOpensNothing(t *testing.T) {
	for _, source := range []string{"0.0.0.0/0", "::/0", "pl-12345678", "sg-0fffffffffffffff0"} {
		w := start(t, "", awssim.Options{})
		nodes, own := w.group("nodes", true), w.group("k8s-elb-a2", true)
		node := w.node(nodes)
		var all sync.WaitGroup
		all.Go(func() {
			err := w.EnsureNodeRules(t.Context(), ref("bad"), vpc.NodeRules{LoadBalancer: "a1", Source: source, SharedSource: true, Instances: []string{node}})
			if cloud.KindOf(err) != cloud.KindInvalid || !strings.Contains(err.Error(), source) {
				t.Errorf("%s: %v", source, err)
			}
		})
		all.Go(func() {
			if err := w.EnsureNodeRules(t.Context(), ref("good"), vpc.NodeRules{LoadBalancer: "a2", Source: own, Instances: []string{node}}); err != nil {
				t.Errorf("beside %s: %v", source, err)
			}
		})
		all.Wait()
		w.wantInbound(nodes, "-1 "+own)
	}
}

// A Node may name any instance: nothing is let in to one that is not the cluster's.
func TestNodesThatAreNotTheClustersStayShut(t *testing.T) {
	w := start(t, "", awssim.Options{})
	nodes, theirs := w.group("nodes", true), w.group("theirs", false)
	node := w.node(nodes)
	for _, foreign := range []map[string]string{nil, {"kubernetes.io/cluster/other": "owned"}} {
		i := w.AddInstance(ec2.Instance{Interfaces: []*ec2.NetworkInterface{{Groups: []string{theirs}}}, Tags: foreign}).ID
		if err := w.EnsureNodeRules(t.Context(), ref("web"), nlb("a1", 30080, node, i)); err != nil {
			t.Fatal(err)
		}
		w.wantInbound(theirs)
		found, later, err := w.Instances(t.Context(), members(node, i))
		if err != nil || cloud.KindOf(later) != cloud.KindRetryAfter || len(found) != 1 || found[node].ID != node {
			t.Errorf("%v, %v", found, err)
		}
		w.clock.Pass(10 * time.Minute) // in which it could have got its tags
		if found, later, err := w.Instances(t.Context(), members(node, i)); err != nil || later != nil || len(found) != 1 {
			t.Errorf("%v, %v, %v", found, later, err)
		}
	}
}

// members are those of instances.
func members(ids ...string) []cloud.LoadBalancerMember {
	var out []cloud.LoadBalancerMember
	for _, id := range ids {
		out = append(out, cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: id, ProviderID: "aws:///eu-central-1a/" + id}})
	}
	return out
}

func TestNodesLetNetworkLoadBalancersIn(t *testing.T) {
	w := start(t, "", awssim.Options{})
	nodes, left := w.group("nodes", true), w.group("left", true)
	i := w.node(nodes)
	was := w.node(left)
	ensure := func(name string, want vpc.NodeRules) {
		t.Helper()
		if err := w.EnsureNodeRules(t.Context(), ref(name), want); err != nil {
			t.Fatal(err)
		}
	}
	ensure("web", nlb("a1", 30080, i, was))
	rules := []string{
		"tcp 30080-30080 10.1.0.0/16 kubernetes.io/rule/nlb/client=a1", "tcp 30080-30080 10.0.0.0/18 kubernetes.io/rule/nlb/health=a1",
		"icmp 3-4 10.1.0.0/16 kubernetes.io/rule/nlb/mtu",
	}
	w.wantInbound(nodes, rules...)
	w.wantInbound(left, rules...)
	open := nlb("a2", 30081, i)
	open.Clients = prefixes("0.0.0.0/0")
	ensure("web2", open) // whoever may come in covers the check
	more := []string{"tcp 30081-30081 0.0.0.0/0 kubernetes.io/rule/nlb/client=a2", "icmp 3-4 0.0.0.0/0 kubernetes.io/rule/nlb/mtu"}
	w.wantInbound(nodes, append(more, rules...)...)
	w.restart("")
	ensure("web", nlb("a1", 30080, i)) // a set of one Service removes nothing of others
	w.wantInbound(nodes, append(more, rules...)...)
	w.wantInbound(left)
	w.Requests()
	if err := w.DeleteNodeRules(t.Context(), ref("web2"), vpc.NodeRules{LoadBalancer: "a2"}); err != nil {
		t.Fatal(err)
	}
	w.wantActions("DescribeSecurityGroups", "RevokeSecurityGroupIngress")
	w.wantInbound(nodes, rules...)
	if err := w.DeleteNodeRules(t.Context(), ref("web"), vpc.NodeRules{LoadBalancer: "a1"}); err != nil {
		t.Fatal(err)
	}
	w.wantInbound(nodes)
}

// sharedCheck makes two Services whose checks are one rule, which has the name of the first. left is what the second one needs.
func (w *world) sharedCheck() (nodes string, all map[string]vpc.NodeRules, left []string) {
	w.t.Helper()
	nodes, all = w.group("nodes", true), map[string]vpc.NodeRules{}
	i := w.node(nodes)
	for n, name := range []string{"web", "web2"} {
		want := nlb(fmt.Sprintf("a%d", n+1), int32(30080+n), i)
		want.HealthPorts = []int32{10256}
		if err := w.EnsureNodeRules(w.t.Context(), ref(name), want); err != nil {
			w.t.Fatal(err)
		}
		all[name] = want
	}
	if got := w.inbound(nodes); !slices.Contains(got, "tcp 10256-10256 10.0.0.0/18 kubernetes.io/rule/nlb/health=a1") || len(got) != 4 {
		w.t.Fatalf("%q", got)
	}
	w.Requests()
	return nodes, all, []string{
		"tcp 10256-10256 10.0.0.0/18 kubernetes.io/rule/nlb/health=a2", "tcp 30081-30081 10.1.0.0/16 kubernetes.io/rule/nlb/client=a2", "icmp 3-4 10.1.0.0/16 kubernetes.io/rule/nlb/mtu",
	}
}

func TestSharedCheckStaysForOthers(t *testing.T) {
	w := start(t, "", awssim.Options{})
	nodes, _, left := w.sharedCheck()
	if err := w.DeleteNodeRules(t.Context(), ref("web"), vpc.NodeRules{LoadBalancer: "a1"}); err != nil {
		t.Fatal(err)
	}
	w.wantActions("DescribeSecurityGroups", "RevokeSecurityGroupIngress", "AuthorizeSecurityGroupIngress")
	w.wantInbound(nodes, left...)
}

// EC2 takes no second rule of the same source under another name, so that there is a moment without it. Whoever comes next brings it
// back if that moment does not end, also where it is not the one that needs it.
func TestSharedCheckThatIsLostComesBackAtOnce(t *testing.T) {
	gone, revoke, authorize := vpc.NodeRules{LoadBalancer: "a1"}, "RevokeSecurityGroupIngress", "AuthorizeSecurityGroupIngress"
	for _, tt := range []struct {
		fault apitest.Fault
		then  []string
	}{
		{apitest.Fault{Action: revoke, Times: 1, Lost: true}, []string{authorize}},
		{apitest.Fault{Action: authorize, Times: 1, Status: 503, Code: "Unavailable"}, []string{authorize}},
		{apitest.Fault{Action: authorize, Times: 1, Lost: true}, nil},
	} {
		for _, next := range []string{"web", "web3"} {
			w := start(t, "", awssim.Options{})
			nodes, _, left := w.sharedCheck()
			remove := w.AddFault(tt.fault)
			if err := w.DeleteNodeRules(t.Context(), ref("web"), gone); err == nil {
				t.Fatal("no error")
			}
			remove()
			w.Requests()
			if err := w.DeleteNodeRules(t.Context(), ref(next), vpc.NodeRules{LoadBalancer: "a" + strings.TrimPrefix(next, "web")}); err != nil {
				t.Fatal(err)
			}
			w.wantActions(append([]string{"DescribeSecurityGroups"}, tt.then...)...)
			w.wantInbound(nodes, left...)
		}
	}
}

func TestCrashWhileASharedCheckIsRenamed(t *testing.T) {
	for n := range 3 {
		w := start(t, "", awssim.Options{})
		nodes, all, left := w.sharedCheck()
		w.gate = &crash{left: n}
		w.restart("")
		var both sync.WaitGroup
		both.Go(func() { _ = w.EnsureNodeRules(t.Context(), ref("web2"), all["web2"]) })
		both.Go(func() { _ = w.DeleteNodeRules(t.Context(), ref("web"), vpc.NodeRules{LoadBalancer: "a1"}) })
		both.Wait()
		w.gate = nil
		w.restart("")
		if err := w.EnsureNodeRules(t.Context(), ref("web2"), all["web2"]); err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(strings.Join(w.inbound(nodes), "; "), "health=a1", "health=a2")
		for _, want := range left {
			if !strings.Contains(got, want) {
				t.Errorf("after a crash before change %d: no %s: %s", n, want, got)
			}
		}
		if err := w.DeleteNodeRules(t.Context(), ref("web"), vpc.NodeRules{LoadBalancer: "a1"}); err != nil {
			t.Fatal(err)
		}
		w.wantInbound(nodes, left...)
	}
}

func TestManyServicesMakeFewCalls(t *testing.T) {
	w := start(t, "", awssim.Options{EC2: ec2.Options{RulesPerGroup: 500}})
	nodes := w.group("nodes", true)
	i := w.node(nodes)
	const services = 40
	w.all(services, func(n int) error {
		return w.EnsureNodeRules(t.Context(), ref(fmt.Sprint("web", n)), nlb(fmt.Sprint("a", n), int32(30000+n), i))
	})
	if got := w.inbound(nodes); len(got) != 2*services+1 {
		t.Errorf("%d rules", len(got))
	}
	if n := len(w.Requests()); n > 9 {
		t.Errorf("%d requests of %d Services, want a few", n, services)
	}
	w.all(services, func(n int) error {
		return w.DeleteNodeRules(t.Context(), ref(fmt.Sprint("web", n)), vpc.NodeRules{LoadBalancer: fmt.Sprint("a", n)})
	})
	w.wantInbound(nodes)
	if n := len(w.Requests()); n > 6 {
		t.Errorf("%d requests to delete %d Services, want a few", n, services)
	}
}

// kubernetes/cloud-provider-aws#90, kubernetes/kubernetes#96840: a group that is full says so, and goes on serving the others.
func TestComplaint90FullGroupSaysWhatToDo(t *testing.T) {
	w := start(t, "", awssim.Options{EC2: ec2.Options{RulesPerGroup: 3}})
	nodes := w.group("nodes", true)
	i := w.node(nodes)
	if err := w.EnsureNodeRules(t.Context(), ref("web"), nlb("a1", 30080, i)); err != nil {
		t.Fatal(err)
	}
	err := w.EnsureNodeRules(t.Context(), ref("web2"), nlb("a2", 30081, i))
	if cloud.KindOf(err) != cloud.KindQuota || !strings.Contains(err.Error(), nodes) || !strings.Contains(err.Error(), "raise the quota of inbound rules per security group") {
		t.Errorf("%v", err)
	}
	changed := nlb("a1", 30090, i) // no room for both
	if err := w.EnsureNodeRules(t.Context(), ref("web"), changed); err != nil {
		t.Error(err)
	}
	w.wantInbound(nodes, "tcp 30090-30090 10.1.0.0/16 kubernetes.io/rule/nlb/client=a1", "tcp 30090-30090 10.0.0.0/18 kubernetes.io/rule/nlb/health=a1", "icmp 3-4 10.1.0.0/16 kubernetes.io/rule/nlb/mtu")
}

// TestWhoWasLetInStaysWhateverFails: where old rules had to make room, and AWS has no time for the new ones, nobody would know of the
// old ones any more.
func TestWhoWasLetInStaysWhateverFails(t *testing.T) {
	w := start(t, "", awssim.Options{})
	nodes := w.group("nodes", true)
	i := w.node(nodes)
	if err := w.EnsureNodeRules(t.Context(), ref("web"), nlb("a1", 30080, i)); err != nil {
		t.Fatal(err)
	}
	w.Fail("AuthorizeSecurityGroupIngress",
		apitest.Fault{Status: http.StatusBadRequest, Code: "RulesPerSecurityGroupLimitExceeded", Message: "full"},
		apitest.Fault{Status: http.StatusServiceUnavailable, Code: "RequestLimitExceeded", Message: "busy"})
	if err := w.EnsureNodeRules(t.Context(), ref("web"), nlb("a1", 30090, i)); cloud.KindOf(err) != cloud.KindThrottled {
		t.Errorf("%v, want that it is throttled", err)
	}
	w.wantInbound(nodes, "tcp 30080-30080 10.1.0.0/16 kubernetes.io/rule/nlb/client=a1", "tcp 30080-30080 10.0.0.0/18 kubernetes.io/rule/nlb/health=a1", "icmp 3-4 10.1.0.0/16 kubernetes.io/rule/nlb/mtu")
}

func TestGroupsOfNodesAreLeftAloneIfSaid(t *testing.T) {
	w := start(t, "DisableSecurityGroupIngress = true\n", awssim.Options{})
	i := w.node(w.group("nodes", true))
	if err := w.EnsureNodeRules(t.Context(), ref("web"), nlb("a1", 30080, i)); err != nil {
		t.Error(err)
	}
	if err := w.DeleteNodeRules(t.Context(), ref("web"), nlb("a1", 30080, i)); err != nil {
		t.Error(err)
	}
	w.wantActions()
}

func TestNewGroupOfALoadBalancerIsWaitedFor(t *testing.T) {
	w := start(t, "", awssim.Options{})
	i := w.node(w.group("nodes", true))
	want := vpc.NodeRules{LoadBalancer: "a1", Source: "sg-0123456789abcdef0", Instances: []string{i}}
	if err := w.EnsureNodeRules(t.Context(), ref("web"), want); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Errorf("%v", err)
	}
}

func TestServiceWithBothKindsLosesTheRulesOfBoth(t *testing.T) {
	w := start(t, "", awssim.Options{})
	nodes, own := w.group("nodes", true), w.group("k8s-elb-a1", true)
	w.allow(nodes, []ec2.Rule{{Protocol: "-1", Group: own}, {Protocol: "tcp", FromPort: 30080, ToPort: 30080, CIDR: "10.0.0.0/8", Description: "kubernetes.io/rule/nlb/client=a1"}})
	w.hurry()
	told := make(chan cloud.LoadBalancerRef, 100)
	w.Attach(t.Context(), func(r cloud.LoadBalancerRef) { told <- r })
	for range 20 { // nobody waits, so that each has to find its own answer
		for _, hint := range []vpc.NodeRules{{LoadBalancer: "a1"}, {LoadBalancer: "a1", Former: own}} {
			if err := w.DeleteNodeRules(t.Context(), ref("web"), hint); err != nil && cloud.KindOf(err) != cloud.KindRetryAfter {
				t.Fatal(err)
			}
		}
		if w.inbound(nodes) == nil {
			break
		}
		if r := <-told; r.UID != ref("web").UID {
			t.Errorf("told %+v", r)
		}
	}
	w.wantInbound(nodes)
}
