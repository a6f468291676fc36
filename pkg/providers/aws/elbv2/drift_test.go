package elbv2_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
)

// drifts are what others may change, with what is said of putting it right; "" is what cannot be.
var drifts = map[string]struct {
	seed func(w *world, b *sim.LoadBalancer, g *sim.TargetGroup) error
	told string
}{
	"a listener is deleted": {func(w *world, b *sim.LoadBalancer, _ *sim.TargetGroup) error {
		listeners, _ := w.elb.Listeners(nil, b.ARN)
		return w.elb.DeleteListener(listeners[0].ARN)
	}, "the listener of port "},
	"a listener is added": {func(w *world, b *sim.LoadBalancer, g *sim.TargetGroup) error {
		_, err := w.elb.CreateListener(sim.Listener{LoadBalancerARN: b.ARN, Port: 9999, Protocol: "TCP", TargetGroupARN: g.ARN})
		return err
	}, "the listener of port 9999, which is none of the Service's, was deleted"},
	"an attribute of the load balancer": {func(w *world, b *sim.LoadBalancer, _ *sim.TargetGroup) error {
		_, err := w.elb.SetAttributes(b.ARN, map[string]string{"load_balancing.cross_zone.enabled": "true"})
		return err
	}, "attributes were set: load_balancing.cross_zone.enabled"},
	"an attribute of a target group": {func(w *world, _ *sim.LoadBalancer, g *sim.TargetGroup) error {
		_, err := w.elb.SetGroupAttributes(g.ARN, map[string]string{"proxy_protocol_v2.enabled": "false"})
		return err
	}, "attributes of target group k8s-default-web-"},
	"a health check": {func(w *world, _ *sim.LoadBalancer, g *sim.TargetGroup) error {
		_, err := w.elb.ModifyTargetGroup(g.ARN, sim.Check{Healthy: 9})
		return err
	}, "the health check of target group k8s-default-web-"},
	"a target is deregistered": {func(w *world, _ *sim.LoadBalancer, g *sim.TargetGroup) error {
		return w.elb.Deregister(g.ARN, []sim.Target{{ID: w.nodes[0].Node.ProviderID[len("aws:///eu-central-1a/"):]}})
	}, "1 targets of target group k8s-default-web-"},
	"a target is registered": {func(w *world, _ *sim.LoadBalancer, g *sim.TargetGroup) error {
		return w.elb.Register(g.ARN, []sim.Target{{ID: w.AddInstance(ec2.Instance{}).ID}})
	}, "1 targets of target group k8s-default-web-"},
	"a rule of the Nodes is removed": {func(w *world, _ *sim.LoadBalancer, _ *sim.TargetGroup) error {
		return w.revoke(w.group, "kubernetes.io/rule/nlb/client=")
	}, "rules of security group sg-"},
	"the Nodes' rule for smaller MTUs is removed": {func(w *world, _ *sim.LoadBalancer, _ *sim.TargetGroup) error {
		return w.revoke(w.group, "kubernetes.io/rule/nlb/mtu")
	}, "rules of security group sg-"},
	"a rule of its own group is removed": {func(w *world, b *sim.LoadBalancer, _ *sim.TargetGroup) error {
		return w.revoke(b.SecurityGroups[0], "")
	}, "rules of security group sg-"},
	"a rule of its own group is added": {func(w *world, b *sim.LoadBalancer, _ *sim.TargetGroup) error {
		_, err := w.EC2.Authorize(b.SecurityGroups[0], []ec2.Rule{{Protocol: "tcp", FromPort: 22, ToPort: 22, CIDR: "0.0.0.0/0"}})
		return err
	}, "rules of security group sg-"},
	"the security groups": {func(w *world, b *sim.LoadBalancer, _ *sim.TargetGroup) error {
		_, err := w.elb.SetSecurityGroups(b.ARN, []string{w.group})
		return err
	}, "security groups were set"},
	"a tag of the user": {func(w *world, b *sim.LoadBalancer, _ *sim.TargetGroup) error {
		return w.elb.SetTags(b.ARN, nil, []string{"team"})
	}, "tags were set"},
	"the cluster's tag": {func(w *world, b *sim.LoadBalancer, _ *sim.TargetGroup) error {
		return w.elb.SetTags(b.ARN, nil, []string{clusterTag})
	}, "tags were set"},
	"the tags of a target group": {func(w *world, _ *sim.LoadBalancer, g *sim.TargetGroup) error {
		return w.elb.SetTags(g.ARN, nil, []string{clusterTag, annotations.ServiceTag})
	}, "tags of target group k8s-default-web-"},
	"the load balancer": {func(w *world, b *sim.LoadBalancer, _ *sim.TargetGroup) error {
		return w.elb.DeleteLoadBalancer(b.ARN)
	}, "the load balancer was gone and was made anew"},
}

// revoke takes the first rule with such a description out of a group.
func (w *world) revoke(group, description string) error {
	w.t.Helper()
	found, err := w.EC2.SecurityGroups([]string{group})
	if err != nil {
		return err
	}
	for _, r := range found[0].Rules {
		if !r.Egress && strings.HasPrefix(r.Description, description) {
			_, err := w.EC2.Revoke(group, []ec2.Rule{r})
			return err
		}
	}
	w.t.Fatalf("no rule %s", description)
	return nil
}

// TestTagsNeverStandInTheWay: what others have a tag say stays, as with the existing manager, and a tag that AWS refuses keeps back
// nothing else of the wish.
func TestTagsNeverStandInTheWay(t *testing.T) {
	w := start(t, "", awssim.Options{})
	spec := w.service("web")
	spec.Settings[annotations.Tags] = "team=x"
	w.ensure(spec)
	balancers, _ := w.elb.LoadBalancers(nil, nil)
	if err := w.elb.SetTags(balancers[0].ARN, map[string]string{"team": "y"}, nil); err != nil {
		t.Fatal(err)
	}
	spec.Verify = true
	w.Age(2 * time.Minute)
	w.ensure(spec)
	if balancers, _ := w.elb.LoadBalancers(nil, nil); balancers[0].Tags["team"] != "y" {
		t.Errorf("%v", balancers[0].Tags)
	}
	spec.Settings[annotations.Tags], spec.Settings[annotations.CrossZone] = "team=x,mine=1", "true"
	w.Age(2 * time.Minute)
	remove := w.AddFault(apitest.Fault{Action: "AddTags", Status: http.StatusBadRequest, Code: "ValidationError", Message: "it is reserved"})
	defer remove()
	status := w.ensure(spec)
	balancers, _ = w.elb.LoadBalancers(nil, nil)
	if !strings.Contains(strings.Join(status.Warnings, " "), "it is reserved") || balancers[0].Attributes["load_balancing.cross_zone.enabled"] != "true" {
		t.Errorf("%+v\n%v", status, balancers[0].Attributes)
	}
}

func TestDriftIsRepairedAndNamed(t *testing.T) {
	for name, d := range drifts {
		t.Run(name, func(t *testing.T) {
			w := start(t, managed, awssim.Options{})
			spec := w.service("web")
			spec.Settings[annotations.TargetGroupAttributes], spec.Settings[annotations.Tags] = "proxy_protocol_v2.enabled=true", "team=x"
			spec.CurrentIngress = w.ensure(spec).Ingress
			before := w.state() + w.tags()
			balancers, _ := w.elb.LoadBalancers(nil, nil)
			groups, _ := w.elb.TargetGroups(nil, nil, "")
			if err := d.seed(w, balancers[0], groups[0]); err != nil {
				t.Fatal(err)
			}
			if w.state()+w.tags() == before {
				t.Fatal("nothing has changed")
			}
			w.Age(2 * time.Minute)
			spec.Verify = true
			status := w.ensure(spec)
			if len(status.Repaired) != 1 || !strings.HasPrefix(status.Repaired[0], d.told) {
				t.Errorf("repaired: %q, want %q", status.Repaired, d.told)
			}
			if got := w.state() + w.tags(); got != before {
				t.Errorf("%s\nwant\n%s", got, before)
			}
			w.Age(2 * time.Minute)
			w.Requests()
			if status := w.ensure(spec); len(status.Repaired) > 0 || w.counts() != "" {
				t.Errorf("again: %q", status.Repaired)
			}
		})
	}
}

// tags are those of load balancers and target groups, with all that state does not show.
func (w *world) tags() string {
	var out []string
	balancers, _ := w.elb.LoadBalancers(nil, nil)
	for _, b := range balancers {
		out = append(out, fmt.Sprint(b.Tags, b.Attributes, b.SecurityGroups))
	}
	groups, _ := w.elb.TargetGroups(nil, nil, "")
	for _, g := range groups {
		out = append(out, fmt.Sprint(g.Tags, g.Attributes, g.Check))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// kubernetes/kubernetes#64251: a load balancer became internal by no change of the annotation, and nobody said so.
func TestComplaint64251InternalIsToldToStay(t *testing.T) {
	w := start(t, "", awssim.Options{})
	spec := w.service("web")
	spec.Settings[annotations.Subnets] = w.Subnets[0].ID
	w.ensure(spec)
	before := w.state()
	w.Requests()
	spec.Settings[annotations.Internal] = "true"
	spec.Settings[annotations.Subnets] = w.Subnets[0].ID + "," + w.Subnets[1].ID
	status := w.ensure(spec)
	if got := strings.Join(status.Warnings, "\n"); !strings.Contains(got, "this one stays internet-facing; delete the Service and make it anew") ||
		!strings.Contains(got, "this one stays in "+w.Subnets[0].ID+", though it is not in "+w.Subnets[1].ID) {
		t.Errorf("%q", status.Warnings)
	}
	if got := w.counts(); got != "" || w.state() != before {
		t.Errorf("%s:\n%s", got, w.state())
	}
}
