package elbv2_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

// What is remembered of whose an object is may be hours old: whatever has changed hands since is not deleted.
func TestWhatHasChangedHandsIsNotDeleted(t *testing.T) {
	other := map[string]string{annotations.ServiceTag: "default/other"}
	for name, want := range map[string]string{"load balancer": "lb 1, groups 2", "target group": "lb 0, groups 1", "": "lb 0, groups 0"} {
		w := start(t, "", awssim.Options{})
		spec := w.service("web")
		w.ensure(spec)
		balancers, _ := w.elb.LoadBalancers(nil, nil)
		groups, _ := w.elb.TargetGroups(nil, nil, "")
		for what, arn := range map[string]string{"load balancer": balancers[0].ARN, "target group": groups[0].ARN} {
			if what != name {
				continue
			}
			if err := w.elb.SetTags(arn, other, nil); err != nil {
				t.Fatal(err)
			}
		}
		w.delete(spec)
		balancers, _ = w.elb.LoadBalancers(nil, nil)
		groups, _ = w.elb.TargetGroups(nil, nil, "")
		if got := "lb " + string(rune('0'+len(balancers))) + ", groups " + string(rune('0'+len(groups))); got != want {
			t.Errorf("the %s is another's: left are %s, want %s", name, got, want)
		}
	}
}

// A target group that a Service does not use any more may be another one's by now.
func TestAnUnusedTargetGroupThatHasChangedHandsStays(t *testing.T) {
	w := start(t, "", awssim.Options{})
	spec := w.service("web")
	w.ensure(spec)
	groups, _ := w.elb.TargetGroups(nil, nil, "")
	if err := w.elb.SetTags(groups[1].ARN, map[string]string{annotations.ServiceTag: "default/other"}, nil); err != nil {
		t.Fatal(err)
	}
	port := int32(groups[1].Port) //nolint:gosec // a port
	spec.Ports = slices.DeleteFunc(spec.Ports, func(p cloud.LoadBalancerPort) bool { return p.NodePort == port })
	w.ensure(spec)
	if left, err := w.elb.TargetGroups([]string{groups[1].ARN}, nil, ""); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

// The rule for a check that Services share has the name of one of them. One that wants what cannot be needs it as well.
func TestSharedCheckStaysForAServiceThatIsFrozen(t *testing.T) {
	const rule = " tcp 10256-10256 "
	for _, first := range []string{"frozen", "deleted"} {
		w := start(t, "ClusterServiceLoadBalancerHealthProbeMode = Shared\n", awssim.Options{})
		goes, stays := w.service("goes"), w.service("stays")
		for _, s := range []*cloud.LoadBalancerSpec{goes, stays} {
			s.Ports = s.Ports[:1]
			s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
		}
		stays.Ports = slices.Clone(stays.Ports)
		stays.Ports[0].NodePort++
		w.ensure(goes)
		w.ensure(stays)
		if got := w.state(); !strings.Contains(got, rule) || !strings.Contains(got, "health="+w.name(goes)) {
			t.Fatalf("%s", got)
		}
		w.restart()
		stays.Frozen, stays.SessionAffinityTimeout = true, time.Hour
		follow := func() { w.again(func() error { return w.UpdateMembers(t.Context(), stays) }) }
		if first == "frozen" {
			follow()
			w.delete(goes)
		} else {
			w.delete(goes)
			follow()
		}
		if got := w.state(); !strings.Contains(got, rule) || !strings.Contains(got, "client="+w.name(stays)) || strings.Contains(got, w.name(goes)) {
			t.Errorf("first %s:\n%s", first, got)
		}
		follow()
		w.Requests()
		if follow(); w.counts() != "" {
			t.Error("nothing is new, but something was changed")
		}
	}
}

func TestSubnetsByNameAreToldToStay(t *testing.T) {
	w := start(t, "", awssim.Options{})
	called := func(i int) {
		for n := range 2 {
			if err := w.EC2.CreateTags([]string{w.Subnets[n].ID}, map[string]string{"Name": map[bool]string{true: "front", false: "back"}[n == i]}); err != nil {
				t.Fatal(err)
			}
		}
		w.Age(10 * time.Minute)
	}
	called(0)
	spec := w.service("web")
	spec.Settings[annotations.Subnets] = "front"
	if status := w.ensure(spec); len(status.Warnings) > 0 {
		t.Errorf("%q", status.Warnings)
	}
	called(1)
	if got := strings.Join(w.ensure(spec).Warnings, "\n"); !strings.Contains(got, "this one stays in "+w.Subnets[0].ID+", though it is not in "+w.Subnets[1].ID) {
		t.Errorf("%q", got)
	}
	spec.Settings[annotations.Subnets] = "nowhere"
	w.Age(10 * time.Minute)
	if got := strings.Join(w.ensure(spec).Warnings, "\n"); !strings.Contains(got, `no subnet "nowhere"`) {
		t.Errorf("%q", got)
	}
}

// The security group of one Service is named by another one: whoever deletes the first is told who holds it, and is not asked to come back
// all the time.
func TestASecurityGroupThatAnotherServiceHasIsNamed(t *testing.T) {
	w := start(t, "NLBSecurityGroupMode = Managed\n", awssim.Options{})
	one, two := w.service("one"), w.service("two")
	w.ensure(one)
	groups, _ := w.EC2.SecurityGroups(nil)
	own := groups[slices.IndexFunc(groups, func(g *ec2.SecurityGroup) bool { return strings.HasPrefix(g.Name, "k8s-") })].ID
	two.Settings[annotations.SecurityGroups] = own
	for i := range two.Ports {
		two.Ports[i].NodePort++
	}
	w.ensure(two)
	var err error
	for _, d := range []time.Duration{0, time.Minute, 10 * time.Minute} {
		w.Age(d)
		err = w.Delete(t.Context(), one)
		if cloud.KindOf(err) != cloud.KindRetryAfter || !strings.Contains(err.Error(), "ELB net/"+w.name(two)+"/") {
			t.Fatalf("%v", err)
		}
	}
	if got := cloud.RetryAfter(err); got < time.Minute {
		t.Errorf("again after %v", got)
	}
	w.delete(two)
	w.delete(one)
}
