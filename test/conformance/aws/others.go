package aws

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
)

const serviceTag = "kubernetes.io/service-name"

// ReserveAddress implements cloudtest.World: an Elastic IP, and the one subnet that it is for.
func (w *World) ReserveAddress(context.Context) (cloudtest.Address, error) {
	eip := w.region.AddAddress(ec2.Address{Tags: map[string]string{"team": "web"}})
	ip, err := netip.ParseAddr(eip.PublicIP)
	return cloudtest.Address{IP: ip, Settings: Static(eip.ID, w.subnet.ID),
		Release: func(context.Context) error {
			defer w.region.RemoveAddress(eip.ID)
			now, err := w.region.Addresses([]string{eip.ID})
			if err == nil && (now[0].PublicIP != eip.PublicIP || now[0].Tags["team"] != "web") {
				err = fmt.Errorf("it was %+v and is %+v", eip, now[0])
			}
			return err
		}}, err
}

// Static are the annotations that ask for an Elastic IP in a subnet.
func Static(eip, subnet string) cloud.Settings {
	return cloud.Settings{annotations + "eip-allocations": eip, annotations + "subnets": subnet}
}

// nameOf is what the load balancer of a Service is called.
func nameOf(ref cloud.LoadBalancerRef) string {
	return ("a" + strings.ReplaceAll(ref.UID, "-", ""))[:32]
}

// foreign is what MakeForeign has made beside a load balancer.
type foreign struct {
	*World
	id                  string // of the Service's load balancer
	name, group, secure string // of the next Service's
	rules               []ec2.Rule
}

// MakeForeign implements cloudtest.World: the load balancer, target group and security group of a Service whose name begins alike, rules in
// the Nodes' security group, and what a user has set of the load balancer that no Service can.
func (w *World) MakeForeign(_ context.Context, ref cloud.LoadBalancerRef, id string) (intact, remove func(context.Context) error, err error) {
	next := ref
	next.Name, next.UID = ref.Name+"-next", uuid.NewString()
	tags := clusterTags()
	tags[serviceTag] = next.Namespace + "/" + next.Name
	f := &foreign{World: w, id: id, name: nameOf(next)}
	f.secure = w.region.AddSecurityGroup(ec2.SecurityGroup{VPCID: w.subnet.VPCID, Name: "k8s-elb-" + f.name, Description: "next", Tags: clusterTags()}).ID
	f.rules, err = w.region.Authorize(w.nodes, []ec2.Rule{
		{Protocol: "tcp", FromPort: 22, ToPort: 22, CIDR: "203.0.113.0/24", Description: "administrators"},
		{Protocol: "tcp", FromPort: 32767, ToPort: 32767, CIDR: "203.0.113.0/24", Description: "kubernetes.io/rule/nlb/health=" + f.name},
	})
	if err != nil {
		return nil, nil, err
	}
	if w.Kind == Network {
		err = f.makeNetwork(plan.GroupName(next), tags)
	} else {
		err = f.makeClassic(tags)
	}
	return f.intact, f.remove, err
}

func (f *foreign) makeNetwork(name string, tags map[string]string) error {
	_, err := f.elbv2.CreateLoadBalancer(elbv2.LoadBalancer{Name: f.name, Type: "network", Mappings: []elbv2.Mapping{{SubnetID: f.subnet.ID}}, Tags: tags})
	if err != nil {
		return err
	}
	g, err := f.elbv2.CreateTargetGroup(elbv2.TargetGroup{Name: name, VPCID: f.subnet.VPCID, Protocol: "TCP", Port: 32767, Tags: tags})
	if err != nil {
		return err
	}
	f.group = g.ARN
	b, _, err := f.find(f.id)
	if err != nil {
		return err
	}
	_, err = f.elbv2.SetAttributes(b.ARN, map[string]string{"dns_record.client_routing_policy": "availability_zone_affinity"})
	return errors.Join(err, f.elbv2.SetTags(b.ARN, map[string]string{"team": "web"}, nil))
}

func (f *foreign) makeClassic(tags map[string]string) error {
	_, err := f.elb.Create(elb.LoadBalancer{Name: f.name, Subnets: []elb.Subnet{{ID: f.subnet.ID}}, SecurityGroups: []string{f.secure}, Tags: tags,
		Listeners: []elb.Listener{{Port: 80, InstancePort: 32767, Protocol: "TCP"}}})
	if err != nil {
		return err
	}
	_, b, err := f.find(f.id)
	if err != nil {
		return err
	}
	if err := f.elb.AddPolicy(b.Name, elb.Policy{Name: "somebody-elses", Type: "AppCookieStickinessPolicyType", Attributes: [][2]string{{"CookieName", "c"}}}); err != nil {
		return err
	}
	_, err = f.elb.Change(b.Name, func(b *elb.LoadBalancer) error { b.Tags["team"] = "web"; return nil })
	return err
}

// intact fails when something is gone or changed. What is the load balancer's goes with it.
func (f *foreign) intact(context.Context) error {
	groups, err := f.region.SecurityGroups([]string{f.nodes, f.secure})
	if err != nil {
		return err
	}
	for _, u := range f.rules {
		if !slices.ContainsFunc(groups, func(g *ec2.SecurityGroup) bool { return slices.Contains(g.Rules, u) }) {
			return fmt.Errorf("rule %+v is gone", u)
		}
	}
	network, classic, err := f.find(f.id)
	switch {
	case err != nil:
		return err
	case network != nil && (network.Tags["team"] != "web" || network.Attributes["dns_record.client_routing_policy"] != "availability_zone_affinity"):
		return fmt.Errorf("the user's tag and attribute have gone: %v, %v", network.Tags, network.Attributes)
	case classic != nil && (classic.Tags["team"] != "web" || !slices.ContainsFunc(classic.Policies, func(p elb.Policy) bool { return p.Name == "somebody-elses" })):
		return fmt.Errorf("the user's tag and policy have gone: %v, %v", classic.Tags, classic.Policies)
	}
	if f.Kind == Classic {
		_, err = f.elb.LoadBalancers([]string{f.name})
		return err
	}
	_, err = f.elbv2.LoadBalancers(nil, []string{f.name})
	_, groupErr := f.elbv2.TargetGroups([]string{f.group}, nil, "")
	return errors.Join(err, groupErr)
}

func (f *foreign) remove(context.Context) error {
	f.elb.Delete(f.name)
	all, err := f.elbv2.LoadBalancers(nil, nil)
	for _, b := range all {
		if b.Name == f.name {
			err = errors.Join(err, f.elbv2.DeleteLoadBalancer(b.ARN))
		}
	}
	if f.group != "" {
		err = errors.Join(err, f.elbv2.DeleteTargetGroup(f.group))
	}
	_, revokeErr := f.region.Revoke(f.nodes, f.rules)
	return errors.Join(err, revokeErr, f.region.DeleteSecurityGroup(f.secure))
}

// Left implements cloudtest.World: load balancers and target groups by their tags and names, security groups, and rules and network interfaces
// by the load balancer's name.
func (w *World) Left(_ context.Context, ref cloud.LoadBalancerRef) ([]string, error) {
	name, service := nameOf(ref), ref.Namespace+"/"+ref.Name
	objects, err := w.objects()
	var out []string
	for _, o := range objects {
		if o.service == service || strings.Contains(o.name, name) || o.name == plan.GroupName(ref) {
			out = append(out, o.String())
		}
	}
	return out, err
}

// Everything implements cloudtest.World.
func (w *World) Everything(ctx context.Context) ([]string, error) {
	objects, err := w.objects()
	routes, routesErr := w.Routes(ctx)
	var out []string
	for _, o := range objects {
		out = append(out, o.String())
	}
	for _, r := range routes {
		out = append(out, fmt.Sprintf("route %s via %s", r.Destination, r.Hop()))
	}
	return out, errors.Join(err, routesErr)
}

// anObject is something that there is. name has all by which it may be known.
type anObject struct{ kind, id, name, service string }

func (o anObject) String() string { return strings.TrimSpace(o.kind + " " + o.id + " " + o.name) }

func (w *World) objects() ([]anObject, error) {
	var out []anObject
	instances, err1 := w.region.Instances(nil)
	for _, i := range instances {
		if i.State != ec2.Terminated { // one that is gone is shown for a while
			out = append(out, anObject{kind: "instance", id: i.ID})
		}
	}
	groups, err2 := w.region.SecurityGroups(nil)
	for _, g := range groups {
		out = append(out, anObject{kind: "security group", id: g.ID, name: g.Name})
		for _, u := range g.Rules {
			out = append(out, anObject{kind: "rule", id: u.ID, name: g.ID + " " + u.Description})
		}
	}
	interfaces, err3 := w.region.Interfaces(nil)
	for _, n := range interfaces {
		if n.Managed {
			out = append(out, anObject{kind: "network interface", id: n.ID, name: n.Description})
		}
	}
	addresses, err4 := w.region.Addresses(nil)
	for _, a := range addresses {
		out = append(out, anObject{kind: "address", id: a.ID})
	}
	balancers, err5 := w.balancers()
	return append(out, balancers...), errors.Join(err1, err2, err3, err4, err5)
}

func (w *World) balancers() ([]anObject, error) {
	var out []anObject
	network, err1 := w.elbv2.LoadBalancers(nil, nil)
	for _, b := range network {
		out = append(out, anObject{"load balancer", b.ARN, b.Name, b.Tags[serviceTag]})
	}
	groups, err2 := w.elbv2.TargetGroups(nil, nil, "")
	for _, g := range groups {
		out = append(out, anObject{"target group", g.ARN, g.Name, g.Tags[serviceTag]})
	}
	classic, err3 := w.elb.LoadBalancers(nil)
	for _, b := range classic {
		out = append(out, anObject{"classic load balancer", "", b.Name, b.Tags[serviceTag]})
	}
	return out, errors.Join(err1, err2, err3)
}
