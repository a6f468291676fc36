package aws

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
)

func ingress(host string) []corev1.LoadBalancerIngress {
	return []corev1.LoadBalancerIngress{{Hostname: host}}
}

func TestKindsByHostName(t *testing.T) {
	for host, want := range map[string]kind{
		"a1-0123.elb.eu-central-1.amazonaws.com":           network,
		"a1-0123.elb.cn-north-1.amazonaws.com.cn":          network,
		"a1-0123.elb.us-gov-west-1.amazonaws.com":          network,
		"a1-0123.elb.us-iso-east-1.c2s.ic.gov":             network,
		"A1-0123.ELB.eu-central-1.amazonaws.com":           network,
		"a1-0123.eu-central-1.elb.amazonaws.com":           classic,
		"internal-a1-0123.us-gov-east-1.elb.amazonaws.com": classic,
		"a1-0123.cn-northwest-1.elb.amazonaws.com.cn":      classic,
		"a1-0123.us-isob-east-1.elb.sc2s.sgov.gov":         classic,
		"web.example.org":                                  unknown,
		"elb.example.org":                                  unknown,
		"":                                                 unknown,
	} {
		if got := shown(ingress(host)); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
	if got := shown(nil); got != unknown {
		t.Errorf("%s", got)
	}
}

func TestWhoServesAService(t *testing.T) {
	traits := loadBalancingTraits()
	for value, want := range map[string]string{"": "", "nlb": "", "alb": "", "nlb-ip": otherController, "external": otherController} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotations.Type: value}}}
		if got := traits.Elsewhere(s); got != want {
			t.Errorf("%s: %q", value, got)
		}
	}
	if _, ok := traits.Classes["service.k8s.aws/nlb"]; ok || traits.Classes["isthmus-cloud.github.io/aws-nlb"] != "nlb" || traits.Reach != cloud.ByInstance || !traits.NodePorts {
		t.Errorf("%+v", traits)
	}
	for id, want := range map[string]bool{"aws:///eu-central-1a/i-0123": true, "": true, "aws:///x/fargate-ip-10-0-0-1": false, "eks-hybrid:///x/mi-1": false} {
		if got := traits.Eligible(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}}); got != want {
			t.Errorf("%s: %t", id, got)
		}
	}
}

func TestTypesOfOthersWithOurClassAreRefused(t *testing.T) {
	c := apitest.Start(t)
	p := provider(t, "[Global]\nRegion = "+apitest.Region+"\nKubernetesClusterID = blue\n")
	for class, want := range map[string]int{"": 1, "nlb": 0} {
		spec := balanced(t, c, annotations.External)
		spec.Class = class
		c.Actions() // those of before
		if problems, _ := p.CheckLoadBalancer(spec); len(problems) != want {
			t.Errorf("class %q: %v", class, problems)
		}
		if _, err := p.LoadBalancers.Ensure(t.Context(), spec); want == 1 && (cloud.KindOf(err) != cloud.KindInvalid || len(c.Actions()) > 0) {
			t.Errorf("%v", err)
		}
	}
}

// balanced is a cluster with a Node, and a Service of a type.
func balanced(t *testing.T, c *apitest.Cloud, kind string) *cloud.LoadBalancerSpec {
	t.Helper()
	tag := map[string]string{"kubernetes.io/cluster/blue": "owned"}
	group := c.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: c.VPC.ID, Name: "nodes" + kind, Description: "Nodes", Tags: tag}).ID
	c.EC2.AddRoute(c.EC2.MainRouteTable(c.VPC.ID).ID, ec2.Route{Destination: "0.0.0.0/0", GatewayID: "igw-0123456789abcdef0"})
	i := c.AddInstance(ec2.Instance{Tags: tag, Interfaces: []*ec2.NetworkInterface{{Groups: []string{group}}}})
	members := []cloud.LoadBalancerMember{{Node: cloud.InstanceRef{NodeName: "node", ProviderID: "aws:///" + i.Zone + "/" + i.ID}}}
	return &cloud.LoadBalancerSpec{
		LoadBalancerRef: cloud.LoadBalancerRef{Cluster: cloud.Cluster{ID: "blue", Name: "kubernetes", UID: "u"}, Namespace: "default", Name: "web",
			UID: "0f0f0f0f-1234-4abc-9def-0123456789ab", Settings: cloud.Settings{annotations.Type: kind}},
		Ports:      []cloud.LoadBalancerPort{{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Members: members, Candidates: members,
	}
}

// again repeats an operation until it is not told to come back.
func again(t *testing.T, op func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := op()
		if err == nil {
			return
		}
		if cloud.KindOf(err) != cloud.KindRetryAfter || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func ensure(t *testing.T, p *cloud.Provider, spec *cloud.LoadBalancerSpec) {
	t.Helper()
	again(t, func() error {
		status, err := p.LoadBalancers.Ensure(t.Context(), spec)
		if err == nil {
			spec.CurrentIngress = status.Ingress
		}
		return err
	})
}

func changes(c *apitest.Cloud) []string {
	return slices.DeleteFunc(c.Actions(), func(a string) bool { return strings.HasPrefix(a, "Describe") })
}

// TestHostNamesAreNoProof: an emulator may name network load balancers as AWS names classic ones. What a Service has only the cloud tells.
func TestHostNamesAreNoProof(t *testing.T) {
	c := apitest.Start(t)
	p := provider(t, "[Global]\nRegion = "+apitest.Region+"\nVPC = "+c.VPC.ID+"\nKubernetesClusterID = blue\n")
	spec := balanced(t, c, annotations.NLB)
	spec.CurrentIngress = []corev1.LoadBalancerIngress{{Hostname: "web-1." + apitest.Region + ".elb.amazonaws.com"}}
	if shown(spec.CurrentIngress) != classic {
		t.Fatal("the name is not that of a classic load balancer")
	}
	ensure(t, p, spec)
	if shown(spec.CurrentIngress) != network {
		t.Errorf("published is %+v", spec.CurrentIngress)
	}
}

// kubernetes/kubernetes#66306, #95042, kubernetes/cloud-provider-aws#1254: where the type was changed the former load balancer was left.
func TestComplaint66306EachServiceGetsItsKind(t *testing.T) {
	for name, want := range map[string]kind{annotations.NLB: network, "": classic, "alb": classic} {
		c := apitest.Start(t)
		p := provider(t, "[Global]\nRegion = "+apitest.Region+"\nVPC = "+c.VPC.ID+"\nKubernetesClusterID = blue\n")
		spec := balanced(t, c, name)
		ensure(t, p, spec)
		if got := shown(spec.CurrentIngress); got != want {
			t.Errorf("%q: %s: %+v", name, got, spec.CurrentIngress)
		}
		other := map[kind]string{network: "", classic: annotations.NLB}[want]
		changed := *spec
		changed.Settings = cloud.Settings{annotations.Type: other}
		changes(c)
		if _, err := p.LoadBalancers.Ensure(t.Context(), &changed); cloud.KindOf(err) != cloud.KindInvalid || len(changes(c)) > 0 {
			t.Errorf("%q: its type can be changed: %v", name, err)
		}
		if problems, warnings := p.CheckLoadBalancer(&changed); len(problems) > 0 || len(warnings) != 1 || !strings.Contains(warnings[0], "does not become") {
			t.Errorf("%q: %v, %q", name, problems, warnings)
		}
		again(t, func() error { return p.LoadBalancers.UpdateMembers(t.Context(), &changed) }) // by what there is
		changed.CurrentIngress = nil
		again(t, func() error { return p.LoadBalancers.Delete(t.Context(), &changed) })
		v2, _ := c.ELBv2(apitest.Account, apitest.Region).LoadBalancers(nil, nil)
		v1, err := c.ELB(apitest.Account, apitest.Region).LoadBalancers(nil)
		if len(v2) > 0 || len(v1) > 0 {
			t.Errorf("%q: a Service that wants another kind by now leaves %d and %d behind, %v", name, len(v2), len(v1), err)
		}
	}
}

// A Service that aws-load-balancer-controller serves by now may have had a load balancer here. That one goes with it, whatever the Service
// shows, and nothing of the other controller's, which names its target groups and security groups in the same way.
func TestServiceOfAnotherControllerLosesWhatWasMadeBefore(t *testing.T) {
	for before, shows := range map[string]string{annotations.NLB: "k8s-default-web-0123456789-0123.elb." + apitest.Region + ".amazonaws.com", "": ""} {
		c := apitest.Start(t)
		p := provider(t, "[Global]\nRegion = "+apitest.Region+"\nVPC = "+c.VPC.ID+"\nKubernetesClusterID = blue\nNLBSecurityGroupMode = Managed\n")
		spec := balanced(t, c, before)
		ensure(t, p, spec)
		region := c.ELBv2(apitest.Account, apitest.Region)
		tag := map[string]string{"elbv2.k8s.aws/cluster": "kubernetes", "service.k8s.aws/stack": "default/web", "kubernetes.io/cluster/blue": "owned"}
		if _, err := region.CreateTargetGroup(elbv2.TargetGroup{Name: "k8s-default-web-0123456789", Protocol: "TCP", Port: 80, VPCID: c.VPC.ID, TargetType: "ip", Tags: tag}); err != nil {
			t.Fatal(err)
		}
		left := *spec
		left.Settings, left.CurrentIngress = cloud.Settings{annotations.Type: annotations.External}, ingress(shows)
		again(t, func() error { return p.LoadBalancers.Delete(t.Context(), &left) })
		v2, _ := region.LoadBalancers(nil, nil)
		v1, err := c.ELB(apitest.Account, apitest.Region).LoadBalancers(nil)
		if len(v2) > 0 || len(v1) > 0 {
			t.Errorf("%q: left are %d and %d, %v", before, len(v2), len(v1), err)
		}
		if groups, _ := region.TargetGroups(nil, nil, ""); len(groups) != 1 || groups[0].Tags["service.k8s.aws/stack"] == "" {
			t.Errorf("%q: target groups are %+v", before, groups)
		}
		if groups, _ := c.EC2.SecurityGroups(nil); slices.ContainsFunc(groups, func(g *ec2.SecurityGroup) bool { return strings.HasPrefix(g.Name, "k8s-") }) {
			t.Errorf("%q: a security group is left", before)
		}
	}
}

// What the cloud refuses at first is gone at the next attempt, also where nothing else is left to tell of it: neither type nor status of
// the Service say by then of which kind its load balancer was.
func TestRulesOfAFormerKindGo(t *testing.T) {
	for _, kind := range []string{annotations.External, ""} {
		rulesOfAFormerKindGo(t, kind)
	}
}

func rulesOfAFormerKindGo(t *testing.T, kind string) {
	t.Helper()
	c := apitest.Start(t)
	p := provider(t, "[Global]\nRegion = "+apitest.Region+"\nVPC = "+c.VPC.ID+"\nKubernetesClusterID = blue\n")
	spec := balanced(t, c, annotations.NLB)
	ensure(t, p, spec)
	rules := func() (n int) {
		groups, err := c.EC2.SecurityGroups(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			for _, r := range g.Rules {
				if !r.Egress && g.Name != "default" {
					n++
				}
			}
		}
		return n
	}
	if rules() == 0 {
		t.Fatal("nobody lets the load balancer in")
	}
	spec.Settings, spec.CurrentIngress = cloud.Settings{annotations.Type: kind}, nil
	c.Fail("RevokeSecurityGroupIngress", apitest.Fault{Status: 403, Code: "UnauthorizedOperation"})
	err := p.LoadBalancers.Delete(t.Context(), spec)
	for cloud.KindOf(err) == cloud.KindRetryAfter {
		err = p.LoadBalancers.Delete(t.Context(), spec)
	}
	if cloud.KindOf(err) != cloud.KindDenied {
		t.Fatalf("the cloud has not refused: %v", err)
	}
	again(t, func() error { return p.LoadBalancers.Delete(t.Context(), spec) })
	if n := rules(); n > 0 {
		t.Errorf("%q: %d rules are left", kind, n)
	}
}
