package elb_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	simelb "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
)

// kubernetes/kops#4197: deleting one of the Services that share ElbSecurityGroup cut all others.
func TestComplaint4197SharedGroupServesTheOthers(t *testing.T) {
	w := start(t, "", awssim.Options{})
	shared := w.group("shared")
	w.conf = "ElbSecurityGroup = " + shared + "\n"
	w.restart(nil)
	before := w.state()
	one, two := w.spec("one", 3), w.spec("two", 3)
	w.ensure(one)
	w.ensure(two)
	rule := "-1 0-0 <shared>"
	w.delete(one)
	if !strings.Contains(w.state(), rule) {
		t.Error("the rule is gone")
	}
	w.restart(nil) // so that the cloud alone tells of it
	w.delete(two)
	if got := w.state(); got != before {
		t.Errorf("%s\nwant\n%s", got, before)
	}
}

// meet is a cloud.Traffic that lets no load balancer be deleted until so many are to be.
type meet struct{ all sync.WaitGroup }

func meeting(n int) *meet {
	m := &meet{}
	m.all.Add(n)
	return m
}

func (m *meet) Begin(_ context.Context, r cloud.Request) (func(cloud.Outcome), error) {
	if r.Op == "DeleteLoadBalancer" {
		m.all.Done()
		m.all.Wait()
	}
	return func(cloud.Outcome) {}, nil
}

// The rule goes with the last of them, also where they go at the same time, and each sees the other's load balancer.
func TestRuleOfASharedGroupGoesWithTheLast(t *testing.T) {
	w := start(t, "", awssim.Options{ELB: simelb.Options{Release: time.Hour}}) // interfaces stay
	mine := w.group("mine")
	one, two := w.spec("one", 3, annotations.SecurityGroups, mine), w.spec("two", 3, annotations.SecurityGroups, mine)
	w.ensure(one)
	w.ensure(two)
	w.restart(meeting(2))
	var both sync.WaitGroup
	for _, s := range []*cloud.LoadBalancerSpec{one, two} {
		both.Go(func() { w.delete(s) })
	}
	both.Wait()
	if got := w.state(); strings.Contains(got, "<mine>") {
		t.Error(got)
	}
}

// Whatever else has the group needs the rule perhaps, and whoever has described a rule has made it.
func TestRuleOfASharedGroupStaysForWhateverHasIt(t *testing.T) {
	for name, prepare := range map[string]func(*world, string){
		"a machine has the group": func(w *world, mine string) {
			w.AddInstance(ec2.Instance{Interfaces: []*ec2.NetworkInterface{{Groups: []string{mine}}}})
		},
		"another kind of load balancer has it": func(w *world, mine string) {
			w.EC2.AddInterface(ec2.NetworkInterface{SubnetID: w.Subnets[0].ID, Managed: true, Groups: []string{mine}, Description: "ELB app/web/0123456789abcdef"})
		},
		"others have made the rule": func(w *world, mine string) {
			if _, err := w.EC2.Authorize(w.nodes, []ec2.Rule{{Protocol: "-1", Group: mine, Description: "by hand"}}); err != nil {
				w.t.Fatal(err)
			}
		},
		"nobody may see who has it": func(w *world, _ string) {
			w.AddFault(cloudsim.Fault{Action: "DescribeNetworkInterfaces", Status: 403, Code: "UnauthorizedOperation"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, "", awssim.Options{})
			mine := w.group("mine")
			prepare(w, mine)
			s := w.spec("web", 3, annotations.SecurityGroups, mine)
			w.ensure(s)
			w.delete(s)
			if got := w.state(); !strings.Contains(got, "-1 0-0 <mine>") {
				t.Error(got)
			}
		})
	}
}

func TestRuleOfAGroupThatAnotherHasReplacedGoes(t *testing.T) {
	w := start(t, "", awssim.Options{})
	mine, yours := w.group("mine"), w.group("yours")
	w.ensure(w.spec("web", 3, annotations.SecurityGroups, mine))
	w.ensure(w.spec("web", 3, annotations.SecurityGroups, yours))
	if got := w.state(); strings.Contains(got, "-1 0-0 <mine>") || !strings.Contains(got, "-1 0-0 <yours>") {
		t.Error(got)
	}
	w.ensure(w.spec("web", 3))
	if got := w.state(); strings.Contains(got, "-1 0-0 <yours>") || !strings.Contains(got, "-1 0-0 <k8s-elb") {
		t.Error(got)
	}
}
