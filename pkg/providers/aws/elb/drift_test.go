package elb_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elb/plan"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	simelb "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
)

// revoke takes the first rule out of a group.
func (w *world) revoke(group string) error {
	found, err := w.EC2.SecurityGroups([]string{group})
	if err != nil {
		return err
	}
	for _, r := range found[0].Rules {
		if !r.Egress {
			_, err := w.EC2.Revoke(group, []ec2.Rule{r})
			return err
		}
	}
	return fmt.Errorf("security group %s has no rule", group)
}

func TestDriftIsRepairedAndNamed(t *testing.T) {
	edit := func(change func(b *simelb.LoadBalancer)) func(*world, *simelb.Region, *simelb.LoadBalancer) error {
		return func(_ *world, r *simelb.Region, b *simelb.LoadBalancer) error {
			_, err := r.Change(b.Name, func(b *simelb.LoadBalancer) error { change(b); return nil })
			return err
		}
	}
	for name, d := range map[string]struct {
		seed func(w *world, r *simelb.Region, b *simelb.LoadBalancer) error
		told string
	}{
		"a listener is deleted": {func(_ *world, r *simelb.Region, b *simelb.LoadBalancer) error {
			return r.RemoveListeners(b.Name, []int{443})
		}, "listeners of load balancer"},
		"a listener is added": {func(_ *world, r *simelb.Region, b *simelb.LoadBalancer) error {
			return r.AddListeners(b.Name, []simelb.Listener{{Protocol: "TCP", Port: 9999, InstanceProtocol: "TCP", InstancePort: 30099}})
		}, "listeners of load balancer"},
		"an instance is deregistered": {func(w *world, r *simelb.Region, b *simelb.LoadBalancer) error {
			_, err := r.Deregister(b.Name, w.ids[:1])
			return err
		}, "instances of load balancer"},
		"an attribute": {edit(func(b *simelb.LoadBalancer) { b.Attributes["CrossZoneLoadBalancing.Enabled"] = "true" }), "attributes of load balancer"},
		"the check":    {edit(func(b *simelb.LoadBalancer) { b.Check.Interval = 77 }), "health check of load balancer"},
		"a tag":        {edit(func(b *simelb.LoadBalancer) { delete(b.Tags, "team") }), "tags of load balancer"},
		"a subnet": {func(w *world, r *simelb.Region, b *simelb.LoadBalancer) error {
			_, err := r.Detach(b.Name, []string{w.Subnets[2].ID})
			return err
		}, "subnets of load balancer"},
		"the security groups": {func(w *world, r *simelb.Region, b *simelb.LoadBalancer) error {
			_, err := r.SetGroups(b.Name, []string{w.nodes})
			return err
		}, "security groups of load balancer"},
		"a rule of its own group": {func(w *world, _ *simelb.Region, b *simelb.LoadBalancer) error {
			return w.revoke(b.SecurityGroups[0])
		}, "rules of security group "},
		"a rule of the Nodes": {func(w *world, _ *simelb.Region, _ *simelb.LoadBalancer) error {
			return w.revoke(w.nodes)
		}, "rules of security group "},
		"the load balancer": {func(_ *world, r *simelb.Region, b *simelb.LoadBalancer) error {
			r.Delete(b.Name)
			return nil
		}, "load balancer a"},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, "", awssim.Options{})
			s := w.spec("web", 3, annotations.Tags, "team=x")
			s.CurrentIngress = w.ensure(s).Ingress
			before := w.state()
			region := w.ELB(apitest.Account, apitest.Region)
			all, err := region.LoadBalancers([]string{plan.Name(s.LoadBalancerRef)})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.seed(w, region, all[0]); err != nil {
				t.Fatal(err)
			}
			if w.state() == before {
				t.Fatal("nothing has changed")
			}
			w.clock.Pass(time.Minute)
			s.Verify = true
			if status := w.ensure(s); len(status.Repaired) != 1 || !strings.HasPrefix(status.Repaired[0], d.told) {
				t.Errorf("repaired: %q, want %q", status.Repaired, d.told)
			}
			if got := w.state(); got != before {
				t.Errorf("%s\nwant\n%s", got, before)
			}
			if status := w.ensure(s); len(status.Repaired) > 0 {
				t.Errorf("again: %q", status.Repaired)
			}
		})
	}
}

// What a verification has put right is told when it ends, also where that takes several calls.
func TestRepairThatIsInterruptedIsNamed(t *testing.T) {
	w := start(t, "", awssim.Options{})
	s := w.spec("web", 3)
	w.ensure(s)
	if err := w.ELB(apitest.Account, apitest.Region).RemoveListeners(plan.Name(s.LoadBalancerRef), []int{443}); err != nil {
		t.Fatal(err)
	}
	if err := w.revoke(w.nodes); err != nil {
		t.Fatal(err)
	}
	w.clock.Pass(time.Minute)
	s.Verify = true
	w.Fail("CreateLoadBalancerListeners", apitest.Fault{Status: 503, Code: "ServiceUnavailable"})
	if _, err := w.Ensure(t.Context(), s); !cloud.IsUnavailable(err) {
		t.Fatal(err)
	}
	if status := w.ensure(s); len(status.Repaired) != 2 {
		t.Errorf("%q", status.Repaired)
	}
}

// kubernetes/kubernetes#64251: a load balancer became internal by no change of the annotation, and nobody said so.
func TestComplaint64251InternalIsToldToStay(t *testing.T) {
	w := start(t, "", awssim.Options{})
	s := w.spec("web", 3)
	w.ensure(s)
	before := w.state()
	s.Settings[annotations.Internal] = "true"
	if status := w.ensure(s); !strings.Contains(strings.Join(status.Warnings, "\n"), "this one stays internet-facing; delete the Service and make it anew") {
		t.Errorf("%q", status.Warnings)
	}
	if got := w.state(); got != before {
		t.Errorf("%s", got)
	}
}
