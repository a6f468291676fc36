package snapshot

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
)

// classic makes a classic load balancer.
func (r *restorer) classic(name string, o Object) error {
	real, err := r.symbols.Expand(name)
	if err != nil {
		return err
	}
	in := elb.LoadBalancer{Name: real, Scheme: text(o, "scheme"), Tags: pairs(object(o, "tags"))}
	if in.SecurityGroups, err = r.expand(list(o, "groups")); err != nil {
		return err
	}
	for _, id := range sorted(object(o, "subnets")) {
		in.Subnets = append(in.Subnets, elb.Subnet{ID: id})
	}
	policies := map[int][]string{}
	for _, port := range sorted(object(o, "listeners")) {
		l := object(object(o, "listeners"), port)
		at, err := strconv.Atoi(port)
		if err != nil {
			return err
		}
		out := elb.Listener{Port: at, Protocol: text(l, "protocol"), CertificateARN: text(l, "certificate")}
		if _, err := fmt.Sscanf(text(l, "to"), "%s %d", &out.InstanceProtocol, &out.InstancePort); err != nil {
			return fmt.Errorf("listener %s: %w", port, err)
		}
		policies[at] = list(l, "policies")
		in.Listeners = append(in.Listeners, out)
	}
	made, err := r.Classic.Create(in)
	if err != nil {
		return err
	}
	r.symbols.Add(strings.Trim(text(o, "dns"), "{}"), made.DNSName)
	_, err = r.Classic.Change(made.Name, func(b *elb.LoadBalancer) error { return settle(b, o, policies) })
	return err
}

// settle gives a new classic load balancer what is not part of its creation, policies by the listeners' ports.
func settle(b *elb.LoadBalancer, o Object, policies map[int][]string) error {
	for i := range b.Listeners {
		b.Listeners[i].Policies = policies[b.Listeners[i].Port]
	}
	for _, name := range sorted(object(o, "policies")) {
		p := object(object(o, "policies"), name)
		out := elb.Policy{Name: name, Type: text(p, "type")}
		for _, k := range sorted(object(p, "attributes")) {
			out.Attributes = append(out.Attributes, [2]string{k, text(object(p, "attributes"), k)})
		}
		b.Policies = append(b.Policies, out)
	}
	for port := range object(o, "backends") {
		at, err := strconv.Atoi(port)
		if err != nil {
			return err
		}
		b.Backends[at] = list(object(o, "backends"), port)
	}
	for k, v := range pairs(object(o, "attributes")) {
		b.Attributes[k] = v
	}
	b.Instances = sorted(object(o, "instances"))
	k := &b.Check
	target, numbers, _ := strings.Cut(text(o, "check"), " ")
	k.Target = target
	_, err := fmt.Sscanf(numbers, "every %d, timeout %d, %d up, %d down", &k.Interval, &k.Timeout, &k.Healthy, &k.Unhealthy)
	return err
}

// network makes a network load balancer with its listeners and their target groups.
func (r *restorer) network(name string, o Object) error {
	real, err := r.symbols.Expand(name)
	if err != nil {
		return err
	}
	in := elbv2.LoadBalancer{Name: real, Type: text(o, "type"), Scheme: text(o, "scheme"), IPAddressType: text(o, "addresses"), Tags: pairs(object(o, "tags"))}
	if in.SecurityGroups, err = r.expand(sorted(object(o, "groups"))); err != nil {
		return err
	}
	for _, subnet := range sorted(object(o, "mappings")) {
		m := object(object(o, "mappings"), subnet)
		in.Mappings = append(in.Mappings, elbv2.Mapping{SubnetID: subnet, AllocationID: text(m, "allocation"), PrivateIP: text(m, "address")})
	}
	made, err := r.Network.CreateLoadBalancer(in)
	if err != nil {
		return err
	}
	r.symbols.Add(strings.Trim(text(o, "dns"), "{}"), made.DNSName)
	if _, err := r.Network.SetAttributes(made.ARN, pairs(object(o, "attributes"))); err != nil {
		return err
	}
	for _, port := range sorted(object(o, "listeners")) {
		if err := r.listener(made.ARN, port, object(object(o, "listeners"), port)); err != nil {
			return fmt.Errorf("listener %s: %w", port, err)
		}
	}
	return nil
}

func (r *restorer) listener(balancer, port string, o Object) error {
	at, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	in := elbv2.Listener{LoadBalancerARN: balancer, Port: at, Protocol: text(o, "protocol"), CertificateARN: text(o, "certificate"),
		SSLPolicy: text(o, "policy"), ALPN: text(o, "alpn"), Tags: pairs(object(o, "tags"))}
	if in.TargetGroupARN, err = r.targetGroup(object(o, "group")); err != nil {
		return err
	}
	_, err = r.Network.CreateListener(in)
	return err
}

// spareGroup makes a target group of no load balancer.
func (r *restorer) spareGroup(_ string, o Object) error {
	_, err := r.targetGroup(o)
	return err
}

// targetGroup makes a target group and returns its ARN.
func (r *restorer) targetGroup(o Object) (string, error) {
	in := elbv2.TargetGroup{Name: text(o, "name"), VPCID: r.vpc, Protocol: text(o, "protocol"), Port: number(o, "port"), TargetType: text(o, "type"),
		IPAddressType: text(o, "addresses"), Tags: pairs(object(o, "tags"))}
	k, rest := &in.Check, ""
	check := strings.Fields(strings.ReplaceAll(text(o, "check"), ",", ""))
	if len(check) > 10 { // what has a path has a matcher
		k.Path, rest = check[10], strings.Join(check[11:], " ")
		k.Matcher, check = rest, check[:10]
	}
	if _, err := fmt.Sscanf(strings.Join(check, " "), "%s %s every %d timeout %d %d up %d down", &k.Protocol, &k.Port, &k.Interval, &k.Timeout, &k.Healthy,
		&k.Unhealthy); err != nil {
		return "", fmt.Errorf("target group %s: %w", in.Name, err)
	}
	made, err := r.Network.CreateTargetGroup(in)
	if err != nil {
		return "", err
	}
	if attributes := pairs(object(o, "attributes")); len(attributes) > 0 {
		if _, err := r.Network.SetGroupAttributes(made.ARN, attributes); err != nil {
			return "", err
		}
	}
	var targets []elbv2.Target
	for _, target := range sorted(object(o, "targets")) {
		id, port, _ := strings.Cut(target, ":")
		at, err := strconv.Atoi(port)
		if err != nil {
			return "", fmt.Errorf("target %s: %w", target, err)
		}
		targets = append(targets, elbv2.Target{ID: id, Port: at})
	}
	return made.ARN, r.Network.Register(made.ARN, targets)
}
