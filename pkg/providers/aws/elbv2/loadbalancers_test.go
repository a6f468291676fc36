package elbv2_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
)

// must is what there is of a Service with two ports and Nodes.
func (w *world) must(spec *cloud.LoadBalancerSpec) {
	w.t.Helper()
	state := w.state()
	for _, want := range []string{
		"lb " + w.name(spec), "listener TCP 80 → 30080", "listener TCP 443 → 30443",
		"rule of nodes tcp 30080-30080 0.0.0.0/0 kubernetes.io/rule/nlb/client=" + w.name(spec),
		"rule of nodes tcp 30443-30443 0.0.0.0/0 kubernetes.io/rule/nlb/client=" + w.name(spec), "rule of nodes icmp 3-4 0.0.0.0/0 kubernetes.io/rule/nlb/mtu",
	} {
		if !strings.Contains(state, want) {
			w.t.Errorf("no %s:\n%s", want, state)
		}
	}
}

func TestLife(t *testing.T) {
	w := start(t, "", awssim.Options{})
	empty := w.state()
	spec := w.service("web")
	for _, step := range []struct {
		name    string
		do      func()
		balance string // what is asked of load balancers, and what changes
		network int    // how often the network is read at most
	}{
		{"create", func() { w.ensure(spec) }, "AuthorizeSecurityGroupIngress 1, CreateListener 2, CreateLoadBalancer 1, CreateTargetGroup 2, " +
			"DescribeLoadBalancers 1, DescribeTargetGroups 1, RegisterTargets 2", 6},
		{"nothing new", func() { w.ensure(spec); w.must(spec) }, "", 0},
		{"nothing new after a restart", func() { w.restart(); w.ensure(spec); w.must(spec) }, "DescribeListeners 1, DescribeLoadBalancerAttributes 1, " +
			"DescribeLoadBalancers 1, DescribeTags 1, DescribeTargetGroups 1, DescribeTargetHealth 2", 6},
		{"delete", func() { w.delete(spec) }, "DeleteLoadBalancer 1, DeleteTargetGroup 2, DescribeTags 1, RevokeSecurityGroupIngress 1", 2},
	} {
		w.Requests()
		step.do()
		requests := w.Requests()
		if got := count(requests, "DescribeL", "DescribeT"); got != step.balance {
			t.Errorf("%s: %s, want %s", step.name, got, step.balance)
		}
		if reads := slices.DeleteFunc(requests, func(r cloudsim.Request) bool { return r.Service != "ec2" || !strings.HasPrefix(r.Action, "Describe") }); len(reads) > step.network {
			t.Errorf("%s: %d reads of the network, want %d at most", step.name, len(reads), step.network)
		}
	}
	if got := w.state(); got != empty {
		t.Errorf("left over:\n%s", got)
	}
	w.restart()
	w.delete(spec) // also when there is nothing
}

func TestTakeoverChangesNothing(t *testing.T) {
	w := start(t, "NLBSecurityGroupMode = Managed\n", awssim.Options{})
	spec := w.service("web")
	spec.HealthCheck = &cloud.HealthCheck{Port: 31000, Path: "/healthz"}
	spec.Settings[annotations.CrossZone], spec.Settings[annotations.TargetGroupAttributes] = "true", "proxy_protocol_v2.enabled=true"
	w.ensure(spec)
	balancers, _ := w.elb.LoadBalancers(nil, nil)
	b := balancers[0]
	if b.Tags[clusterTag] != "owned" || b.Tags["kubernetes.io/service-name"] != "default/web" || len(b.Mappings) != 3 || len(b.SecurityGroups) != 1 || b.Scheme != "internet-facing" {
		t.Errorf("%+v", b)
	}
	groups, _ := w.elb.TargetGroups(nil, nil, "")
	for _, g := range groups {
		if g.Check.Protocol != "HTTP" || g.Check.Port != "31000" || g.Check.Path != "/healthz" || g.Check.Interval != 10 || g.Attributes["proxy_protocol_v2.enabled"] != "true" || g.Tags[clusterTag] != "owned" {
			t.Errorf("%+v", g)
		}
	}
	if !strings.Contains(w.state(), "rule of "+plan.GroupName(spec.LoadBalancerRef)+" tcp 443-443 0.0.0.0/0") {
		t.Errorf("%s", w.state())
	}
	w.restart()
	w.ensure(spec)
	if got := w.counts(); got != "" {
		t.Errorf("it changes: %s", got)
	}
}

func TestANodeJoins(t *testing.T) {
	w := start(t, "", awssim.Options{})
	var specs []*cloud.LoadBalancerSpec
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		specs = append(specs, w.service(name))
		w.ensure(specs[len(specs)-1])
	}
	gone := w.nodes[0]
	w.nodes = w.nodes[1:]
	joined := w.addNode()
	w.Requests()
	var all sync.WaitGroup
	for _, spec := range specs {
		spec.Members, spec.Candidates = w.nodes, w.nodes
		all.Go(func() { w.again(func() error { return w.UpdateMembers(t.Context(), spec) }) })
	}
	all.Wait()
	requests := w.Requests()
	first := map[string]int{}
	for i, r := range requests {
		if _, ok := first[r.Action]; !ok {
			first[r.Action] = i
		}
	}
	count := func(action string) (n int) {
		for _, r := range requests {
			if r.Action == action {
				n++
			}
		}
		return n
	}
	if count("RegisterTargets") != 10 || count("DeregisterTargets") != 10 || first["RegisterTargets"] > first["DeregisterTargets"] {
		t.Errorf("%d, %d", count("RegisterTargets"), count("DeregisterTargets"))
	}
	for _, action := range []string{"DescribeTargetHealth", "DescribeListeners", "DescribeLoadBalancers", "DescribeTags", "AuthorizeSecurityGroupIngress"} {
		if count(action) > 0 {
			t.Errorf("%d times %s", count(action), action)
		}
	}
	if n := count("DescribeInstances"); n > 5 {
		t.Errorf("%d times DescribeInstances", n)
	}
	state := w.state()
	if !strings.Contains(state, joined) || strings.Contains(state, gone.Node.ProviderID[len("aws:///eu-central-1a/"):]) {
		t.Errorf("%s", state)
	}
}

// Where a target group has as many targets as AWS allows, a Node that takes the place of another one waits for its leaving.
func TestAFullTargetGroupLetsGoFirst(t *testing.T) {
	w := start(t, "", awssim.Options{ELBv2: sim.Options{Targets: 2, Draining: time.Nanosecond}})
	spec := w.service("a")
	w.ensure(spec)
	gone := w.nodes[0].Node.ProviderID[len("aws:///eu-central-1a/"):]
	w.nodes = w.nodes[1:]
	joined := w.addNode()
	spec.Members, spec.Candidates = w.nodes, w.nodes
	err := w.UpdateMembers(t.Context(), spec)
	if cloud.KindOf(err) != cloud.KindRetryAfter || !strings.Contains(err.Error(), "some Nodes get no traffic until others' instances have left") {
		t.Errorf("%s: %v", cloud.KindOf(err), err)
	}
	w.again(func() error { return w.UpdateMembers(t.Context(), spec) })
	if state := w.state(); !strings.Contains(state, joined) || strings.Contains(state, gone) {
		t.Errorf("%s", state)
	}
	w.addNode()
	spec.Members, spec.Candidates = w.nodes, w.nodes
	if err := w.UpdateMembers(t.Context(), spec); cloud.KindOf(err) != cloud.KindQuota {
		t.Errorf("one too many, and none that leaves: %s: %v", cloud.KindOf(err), err)
	}
}

func TestServicesShareReads(t *testing.T) {
	const services = 15
	w := start(t, "", awssim.Options{})
	together := func() {
		var all sync.WaitGroup
		for n := range services {
			spec := w.service(fmt.Sprint("web-", n))
			for i := range spec.Ports {
				spec.Ports[i].NodePort += int32(n) //nolint:gosec // few
			}
			all.Go(func() {
				w.again(func() error { _, err := w.Ensure(t.Context(), spec); return err })
			})
		}
		all.Wait()
	}
	for _, tags := range []int{0, 3} { // of 15 load balancers and 30 target groups, by 20
		together()
		got := map[string]int{}
		for _, r := range w.Requests() {
			got[r.Action]++
		}
		for action, want := range map[string]int{"DescribeLoadBalancers": 1, "DescribeTargetGroups": 1, "DescribeTags": tags} {
			if got[action] != want {
				t.Errorf("%d times %s, want %d", got[action], action, want)
			}
		}
		if n := got["AuthorizeSecurityGroupIngress"]; n > services/2 || tags > 0 && n > 0 {
			t.Errorf("%d changes of the Nodes' group", n)
		}
		w.restart()
	}
}

// What is uncertain after an outage is looked at together, and so is whether the outage goes on.
func TestServicesShareReadsInAnOutage(t *testing.T) {
	const services, rounds = 500, 3
	w := start(t, "", awssim.Options{})
	down := func(actions ...string) map[string]int {
		t.Helper()
		for _, action := range actions {
			defer w.AddFault(apitest.Fault{Action: action, Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"})()
		}
		w.Requests()
		for range rounds {
			for n := range services {
				if _, err := w.Ensure(t.Context(), w.service(fmt.Sprint("web-", n))); !cloud.IsUnavailable(err) {
					t.Fatal(err)
				}
			}
			w.Age(time.Minute)
		}
		got := map[string]int{}
		for _, r := range w.Requests() {
			got[r.Action]++
		}
		return got
	}
	got := down("CreateLoadBalancer")
	if got["CreateLoadBalancer"] != rounds*services || got["DescribeLoadBalancers"] > rounds || got["DescribeTargetGroups"] > rounds {
		t.Errorf("%v: want each of %d Services to be tried, and one read of the lists in each of %d rounds", got, services, rounds)
	}
	got = down("CreateLoadBalancer", "DescribeLoadBalancers")
	if n := got["DescribeLoadBalancers"]; n < 1 || n > 10*rounds {
		t.Errorf("%d failing reads of %d Services, want one each round", n, services)
	}
	w.Age(time.Minute)
	w.ensure(w.service("web-1"))
	w.must(w.service("web-1"))
}

func TestMembersWithoutAnythingRemembered(t *testing.T) {
	w := start(t, "", awssim.Options{})
	spec := w.service("web")
	if err := w.UpdateMembers(t.Context(), spec); !cloud.IsNotFound(err) {
		t.Errorf("there is none: %v", err)
	}
	w.ensure(spec)
	w.restart()
	joined := w.addNode()
	spec.Members, spec.Candidates, spec.Frozen = w.nodes, w.nodes, true
	spec.Ports = spec.Ports[:1]
	spec.Settings[annotations.CheckProtocol] = "wrong"
	w.again(func() error { return w.UpdateMembers(t.Context(), spec) })
	if n := strings.Count(w.state(), joined); n != 2 {
		t.Errorf("the new Node is in %d target groups, want 2: what is there stays", n)
	}
	spec.Members, spec.Candidates = nil, w.nodes[1:]
	w.again(func() error { return w.UpdateMembers(t.Context(), spec) })
	if n := strings.Count(w.state(), joined); n != 2 || w.counts() == "" {
		t.Errorf("%s", w.state())
	}
	spec.Candidates = nil
	w.counts()
	w.again(func() error { return w.UpdateMembers(t.Context(), spec) })
	if got := w.counts(); got != "" {
		t.Errorf("all members are taken away: %s", got)
	}
}

func TestPortsChange(t *testing.T) {
	w := start(t, "", awssim.Options{})
	spec := w.service("web")
	w.ensure(spec)
	spec.Ports[0].NodePort = 30081
	spec.Ports[1].Port = 8443
	w.Requests()
	w.ensure(spec)
	var order []string
	for _, r := range w.Requests() {
		if !strings.HasPrefix(r.Action, "Describe") && r.Service == "elbv2" {
			order = append(order, r.Action)
		}
	}
	want := []string{"CreateTargetGroup", "RegisterTargets", "ModifyListener", "CreateListener", "DeleteListener", "DeleteTargetGroup"}
	if !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
	state := w.state()
	for _, want := range []string{"listener TCP 80 → 30081", "listener TCP 8443 → 30443", "tcp 30081-30081"} {
		if !strings.Contains(state, want) {
			t.Errorf("no %s:\n%s", want, state)
		}
	}
	if strings.Contains(state, "30080") || strings.Contains(state, "TCP 443") {
		t.Errorf("left over:\n%s", state)
	}
}

func TestTheHostNameIsToldEarlyAndNobodyWaits(t *testing.T) {
	w := start(t, "", awssim.Options{ELBv2: sim.Options{Provisioning: 300 * time.Millisecond}})
	told := make(chan cloud.LoadBalancerRef, 100)
	w.Attach(t.Context(), func(ref cloud.LoadBalancerRef) { told <- ref })
	spec := w.service("web")
	status, err := w.Ensure(t.Context(), spec)
	if cloud.KindOf(err) != cloud.KindRetryAfter || status == nil || len(status.Ingress) != 1 {
		t.Fatalf("%+v, %v", status, err)
	}
	w.must(spec) // all is made before it is active
	select {
	case ref := <-told:
		if ref.Name != "web" {
			t.Errorf("%+v", ref)
		}
	case <-time.After(time.Minute):
		t.Fatal("nobody is told of the end")
	}
	w.counts()
	if _, err := w.Ensure(t.Context(), spec); err != nil {
		t.Error(err)
	}
	if got := w.counts("Describe"); got != "" {
		t.Errorf("%s", got)
	}
}

// kubernetes/cloud-provider-aws#566, kubernetes/kubernetes#79994, #84366: security groups were left over, as nobody came back for one in use.
func TestComplaint566WhatIsInUseIsDeletedLater(t *testing.T) {
	w := start(t, "NLBSecurityGroupMode = Managed\n", awssim.Options{ELBv2: sim.Options{Release: 200 * time.Millisecond}})
	empty := w.state()
	spec := w.service("web")
	w.ensure(spec)
	if err := w.Delete(t.Context(), spec); cloud.KindOf(err) != cloud.KindRetryAfter || !strings.Contains(err.Error(), "in use") {
		t.Errorf("%s: %v", cloud.KindOf(err), err)
	}
	w.restart() // also by another process
	w.delete(spec)
	if got := w.state(); got != empty {
		t.Errorf("left over:\n%s", got)
	}
}

func TestWhatOthersHaveChangedIsPutRight(t *testing.T) {
	w := start(t, "", awssim.Options{})
	spec := w.service("web")
	w.ensure(spec)
	balancers, _ := w.elb.LoadBalancers(nil, nil)
	listeners, _ := w.elb.Listeners(nil, balancers[0].ARN)
	if err := w.elb.DeleteListener(listeners[0].ARN); err != nil {
		t.Fatal(err)
	}
	if _, err := w.elb.SetAttributes(balancers[0].ARN, map[string]string{"load_balancing.cross_zone.enabled": "true"}); err != nil {
		t.Fatal(err)
	}
	w.ensure(spec)
	if got := w.counts(); strings.Contains(got, "Modify") {
		t.Errorf("it is read without being asked to: %s", got)
	}
	w.Age(2 * time.Minute)
	spec.Verify = true
	status := w.ensure(spec)
	w.must(spec)
	if len(status.Repaired) != 2 || !strings.Contains(strings.Join(status.Repaired, "; "), "listener of port") {
		t.Errorf("%q", status.Repaired)
	}
}

func TestSomebodyElsesIsLeftAlone(t *testing.T) {
	w := start(t, "", awssim.Options{})
	spec := w.service("web")
	theirs, err := w.elb.CreateLoadBalancer(sim.LoadBalancer{Name: w.name(spec), Type: "network", Tags: map[string]string{"kubernetes.io/cluster/other": "owned"},
		Mappings: []sim.Mapping{{SubnetID: w.Subnets[0].ID}}})
	if err != nil {
		t.Fatal(err)
	}
	before := w.state()
	if _, err := w.Ensure(t.Context(), spec); cloud.KindOf(err) != cloud.KindConflict {
		t.Errorf("%v", err)
	}
	w.delete(spec)
	if w.state() != before || theirs == nil || w.counts() != "" {
		t.Errorf("%s", w.state())
	}
}

func TestOneThatHasNoMarkIsMarked(t *testing.T) {
	w := start(t, "", awssim.Options{})
	spec := w.service("web")
	status := w.ensure(spec)
	balancers, _ := w.elb.LoadBalancers(nil, nil)
	groups, _ := w.elb.TargetGroups(nil, nil, "")
	for _, arn := range []string{balancers[0].ARN, groups[0].ARN} {
		if err := w.elb.SetTags(arn, nil, []string{clusterTag, "kubernetes.io/service-name"}); err != nil {
			t.Fatal(err)
		}
	}
	w.restart()
	if _, err := w.Ensure(t.Context(), spec); cloud.KindOf(err) != cloud.KindConflict {
		t.Errorf("a name alone is taken for a proof: %v", err)
	}
	spec.CurrentIngress = status.Ingress
	w.ensure(spec)
	if got := w.counts(); got != "AddTags 1" {
		t.Errorf("%s", got)
	}
}

func TestSecurityGroups(t *testing.T) {
	w := start(t, "NLBSecurityGroupMode = Managed\n", awssim.Options{})
	spec := w.service("web")
	w.ensure(spec)
	theirs := w.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: w.VPC.ID, Name: "theirs", Description: "d"}).ID
	spec.Settings[annotations.SecurityGroups] = theirs
	w.ensure(spec)
	if got := w.counts(); !strings.Contains(got, "SetSecurityGroups 1") || !strings.Contains(got, "DeleteSecurityGroup 1") || strings.Contains(w.state(), "k8s-default-web") && strings.Contains(w.state(), "security group k8s") {
		t.Errorf("%s:\n%s", got, w.state())
	}
	w.delete(spec)
	if _, err := w.EC2.SecurityGroups([]string{theirs}); err != nil {
		t.Errorf("theirs is gone: %v", err)
	}
}

func TestOneMadeWithoutSecurityGroupsGetsNone(t *testing.T) {
	w := start(t, "", awssim.Options{})
	spec := w.service("web")
	w.ensure(spec)
	w.conf = "NLBSecurityGroupMode = Managed\n"
	w.restart()
	if status := w.ensure(spec); len(status.Warnings) != 1 || w.counts() != "" {
		t.Errorf("%q", status.Warnings)
	}
}

// TestComplaint822TheTimeoutOfChecksIsSent: with a new target group, and when it changes.
func TestComplaint822TheTimeoutOfChecksIsSent(t *testing.T) {
	w := start(t, "", awssim.Options{})
	spec := w.service("web")
	for _, timeout := range []int{7, 15} {
		spec.Settings[annotations.CheckTimeout] = strconv.Itoa(timeout)
		w.ensure(spec)
		groups, err := w.elb.TargetGroups(nil, nil, "")
		if err != nil || len(groups) != 2 || groups[0].Check.Timeout != timeout || groups[1].Check.Timeout != timeout {
			t.Errorf("%d: %+v, %v", timeout, groups, err)
		}
	}
}

func TestComplaint94966AnInstanceThatIsRefusedKeepsNobodyOut(t *testing.T) {
	w := start(t, "", awssim.Options{})
	stopped := w.addNode()
	w.EC2.Stop(stopped)
	spec := w.service("web")
	_, err := w.Ensure(t.Context(), spec)
	if cloud.KindOf(err) != cloud.KindRetryAfter || !strings.Contains(err.Error(), stopped) {
		t.Errorf("%v", err)
	}
	if got := w.state(); strings.Contains(got, stopped) || strings.Contains(got, "[]") {
		t.Errorf("%s", got)
	}
	if got := w.counts(); !strings.Contains(got, "RegisterTargets 2") { // without an attempt that AWS refuses
		t.Errorf("%s", got)
	}
	late := w.addNode() // stops after it was listed
	spec.Members = w.nodes
	refused := "InvalidTarget"
	remove := w.AddFault(apitest.Fault{Action: "RegisterTargets", Times: 1, Status: http.StatusBadRequest, Code: refused,
		Message: "The following targets are not in a running state and cannot be registered: '" + late + "'"})
	defer remove()
	if _, err := w.Ensure(t.Context(), spec); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Errorf("%v", err)
	}
}

// EC2's reads lag behind: an instance that it does not show yet comes in by itself.
func TestInstanceThatIsNotShownYetIsWaitedFor(t *testing.T) {
	w := start(t, "", awssim.Options{})
	const id = "i-0aaaaaaaaaaaaaaaa"
	w.ensure(w.service("web"))
	w.nodes = append(w.nodes, cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: "new", ProviderID: "aws:///eu-central-1a/" + id}})
	spec := w.service("web")
	for range 3 {
		if err := w.UpdateMembers(t.Context(), spec); cloud.KindOf(err) != cloud.KindRetryAfter || !strings.Contains(err.Error(), id) {
			t.Errorf("%v", err)
		}
	}
	w.AddInstance(ec2.Instance{ID: id, Tags: map[string]string{clusterTag: "owned"}, Interfaces: []*ec2.NetworkInterface{{Groups: []string{w.group}}}})
	w.clock.Pass(5 * time.Second)
	w.again(func() error { return w.UpdateMembers(t.Context(), spec) })
	if got := w.state(); strings.Count(got, id) != 2 {
		t.Error(got)
	}
}

// A Node whose security groups do not tell where to let in keeps neither the others from their traffic nor the Service from its address.
func TestNodeThatCannotBeOpenedKeepsNobodyOut(t *testing.T) {
	w := start(t, "", awssim.Options{})
	var groups []string
	for _, name := range []string{"x", "y"} {
		groups = append(groups, w.EC2.AddSecurityGroup(ec2.SecurityGroup{VPCID: w.VPC.ID, Name: name, Description: name}).ID)
	}
	bad := w.AddInstance(ec2.Instance{Tags: map[string]string{clusterTag: "owned"}, Interfaces: []*ec2.NetworkInterface{{Groups: groups}}})
	w.nodes = append(w.nodes, cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: "bad", ProviderID: "aws:///" + bad.Zone + "/" + bad.ID}})
	spec := w.service("web")
	var status *cloud.LoadBalancerStatus
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if status, err = w.Ensure(t.Context(), spec); cloud.KindOf(err) != cloud.KindRetryAfter {
			break
		}
	}
	if cloud.KindOf(err) != cloud.KindFailed || !strings.Contains(fmt.Sprint(err), bad.ID+" has 2 security groups") || status == nil || len(status.Ingress) != 1 {
		t.Errorf("%+v, %v", status, err)
	}
	if got := w.state(); !strings.Contains(got, bad.ID) || !strings.Contains(got, "rule of nodes tcp 30080") {
		t.Error(got)
	}
	if err := w.EC2.CreateTags(groups[:1], map[string]string{clusterTag: "owned"}); err != nil {
		t.Fatal(err)
	}
	w.ensure(spec)
	if got := w.state(); !strings.Contains(got, "rule of x tcp 30080") {
		t.Error(got)
	}
}

// An answer without any of several instances may be another account's, or another VPC's.
func TestAnswerWithoutInstancesIsNotBelieved(t *testing.T) {
	w := start(t, "", awssim.Options{})
	spec := w.service("web")
	w.ensure(spec)
	before := w.state()
	w.restart()
	none := apitest.Body(`<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet/></DescribeInstancesResponse>`)
	w.Fail("DescribeInstances", none, none)
	if _, err := w.Ensure(t.Context(), spec); cloud.KindOf(err) != cloud.KindUnknown || !strings.Contains(err.Error(), "EC2 knows none of the 2 instances of Nodes") {
		t.Errorf("%v", err)
	}
	if got := w.counts(); got != "" || w.state() != before {
		t.Errorf("%s", got)
	}
	w.clock.Pass(time.Minute)
	w.Fail("DescribeInstances", none, none)
	if _, err := w.Ensure(t.Context(), spec); cloud.KindOf(err) != cloud.KindUnknown { // nothing was changed meanwhile, so that nothing else is read
		t.Errorf("%v", err)
	}
	if got := w.counts("Describe"); got != "DescribeInstances 2" {
		t.Errorf("%s", got)
	}
}

// What only has a name as ours have, and the cluster's tag, may be another Service's or another controller's.
func TestATargetGroupThatNamesNoServiceStays(t *testing.T) {
	w := start(t, "", awssim.Options{})
	spec := w.service("web")
	g, err := w.elb.CreateTargetGroup(sim.TargetGroup{Name: "k8s-default-web-0123456789", Protocol: "TCP", Port: 30080, VPCID: w.VPC.ID, Tags: map[string]string{clusterTag: "owned"}})
	if err != nil {
		t.Fatal(err)
	}
	w.ensure(spec)
	w.delete(spec)
	if left, err := w.elb.TargetGroups([]string{g.ARN}, nil, ""); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestAddresses(t *testing.T) {
	w := start(t, "", awssim.Options{})
	spec := w.service("web")
	one := w.EC2.AddAddress(ec2.Address{PublicIP: "203.0.113.80"}).ID
	spec.Settings[annotations.Subnets] = w.Subnets[0].ID + "," + w.Subnets[1].ID
	for _, tooFew := range []string{one, ""} {
		spec.Settings[annotations.EIPAllocations] = tooFew
		if _, err := w.Ensure(t.Context(), spec); cloud.KindOf(err) != cloud.KindInvalid || w.counts() != "" {
			t.Errorf("%q: %v", tooFew, err)
		}
	}
	spec.Settings[annotations.EIPAllocations], spec.Settings[annotations.Subnets] = one, w.Subnets[0].ID
	w.ensure(spec)
	balancers, _ := w.elb.LoadBalancers(nil, nil)
	if m := balancers[0].Mappings; len(m) != 1 || m[0].PublicIP() != "203.0.113.80" {
		t.Errorf("%+v", m)
	}
}

// Targets that a request has brought in are known, whatever becomes of the next one.
func TestTargetsOfAChunkAreKnownWhereTheNextIsRefused(t *testing.T) {
	w := start(t, "", awssim.Options{ELBv2: sim.Options{Targets: 103, Draining: time.Nanosecond}})
	spec := w.service("a")
	w.ensure(spec)
	old := slices.Clone(w.nodes)
	for range 103 {
		w.addNode()
	}
	spec.Members, spec.Candidates = w.nodes, w.nodes
	if err := w.UpdateMembers(t.Context(), spec); cloud.KindOf(err) != cloud.KindQuota {
		t.Fatal(err)
	}
	spec.Members, spec.Candidates = old, old
	w.again(func() error { return w.UpdateMembers(t.Context(), spec) })
	groups, _ := w.elb.TargetGroups(nil, nil, "")
	for _, g := range groups {
		targets, err := w.elb.Health(g.ARN, nil)
		if err != nil || len(targets) != len(old) {
			t.Errorf("%d targets, %v: those of a request before one that was refused are forgotten", len(targets), err)
		}
	}
}
