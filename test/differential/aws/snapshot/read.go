package snapshot

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elb"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/elbv2"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// Cloud is an account in a region.
type Cloud struct {
	EC2     *ec2.Region
	Classic *elb.Region
	Network *elbv2.Region
	// Given are IDs of the security groups and the table that belong to nobody's scenario.
	Given []string
	// Table is the ID of the table that Routes are in.
	Table string
	// Usual are the tags that instances have from the start.
	Usual map[string]string
}

// contents is what an account holds.
type contents struct {
	classic   []*elb.LoadBalancer
	network   []*elbv2.LoadBalancer
	listeners []*elbv2.Listener
	groups    []*elbv2.TargetGroup
	security  []*ec2.SecurityGroup
	instances []*ec2.Instance
	tables    []*ec2.RouteTable
}

func (c *Cloud) contents() (out contents, err error) {
	for _, read := range []func() error{
		func() (err error) { out.classic, err = c.Classic.LoadBalancers(nil); return err },
		func() (err error) { out.network, err = c.Network.LoadBalancers(nil, nil); return err },
		func() (err error) { out.groups, err = c.Network.TargetGroups(nil, nil, ""); return err },
		func() (err error) { out.listeners, err = c.Network.Listeners(nil, ""); return err },
		func() (err error) { out.security, err = c.EC2.SecurityGroups(nil); return err },
		func() (err error) { out.instances, err = c.EC2.Instances(nil); return err },
		func() (err error) { out.tables, err = c.EC2.RouteTables([]string{c.Table}); return err },
	} {
		if err := read(); err != nil {
			return out, err
		}
	}
	return out, nil
}

// Instances are by ID the scenarios whose instances they are.
type Instances map[string]string

// Routes are by destination the scenarios whose routes they are.
type Routes map[string]string

// Owners are the scenarios that own what does not say so itself.
type Owners struct {
	Instances Instances
	Routes    Routes
}

// Read returns what the cloud holds, by scenario; what belongs to none is under "". New objects get symbols: symbols must be
// the same at each look of a run.
func (c *Cloud) Read(symbols *symbol.Symbols, scenarios []string, owners Owners) (map[string]State, error) {
	all, err := c.contents()
	if err != nil {
		return nil, err
	}
	all.name(symbols)
	out := map[string]State{}
	for _, name := range append([]string{""}, scenarios...) {
		out[name] = State{}
	}
	for _, b := range all.classic {
		name := symbols.Fold(b.Name)
		out[OwnerOf(name, scenarios)].put("classic", name, classic(b, symbols))
	}
	for _, b := range all.network {
		name := symbols.Fold(b.Name)
		out[OwnerOf(name, scenarios)].put("network", name, all.balancer(b, symbols))
	}
	for _, g := range all.groups {
		if c.Network.LoadBalancerOf(g.ARN) == "" {
			out[OwnerOf("("+g.Tags["kubernetes.io/service-name"], scenarios)].put("group", g.Name, group(g))
		}
	}
	for _, g := range all.security {
		c.security(g, out, scenarios, symbols)
	}
	for _, i := range all.instances {
		if o := c.instance(i); len(o) > 0 {
			out[owners.Instances[i.ID]].put("instance", i.ID, o)
		}
	}
	for _, r := range c.EC2.Routes(all.tables[0]) {
		if r.Local {
			continue
		}
		out[owners.Routes[r.Destination]].put("route", r.Destination, filled(Object{"instance": r.InstanceID, "gateway": r.GatewayID, "state": r.State}))
	}
	return out, nil
}

// name gives symbols to what is made up at every run.
func (all *contents) name(symbols *symbol.Symbols) {
	bare := func(s string) string { return strings.Trim(symbols.Fold(s), "{}") }
	for _, b := range all.classic {
		symbols.Add("dns:"+strings.TrimPrefix(bare(b.Name), "lb:"), b.DNSName)
	}
	for _, b := range all.network {
		symbols.Add("dns:"+strings.TrimPrefix(bare(b.Name), "lb:"), b.DNSName)
	}
	for _, g := range all.security {
		symbols.Add("sg:"+strings.NewReplacer("{", "", "}", "").Replace(symbols.Fold(g.Name)), g.ID)
	}
}

func fold(list []string, symbols *symbol.Symbols) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = symbols.Fold(v)
	}
	return out
}

// usualClassic are the attributes of a new load balancer.
var usualClassic = map[string]string{
	"AccessLog.Enabled": "false", "ConnectionDraining.Enabled": "false", "ConnectionDraining.Timeout": "300", "ConnectionSettings.IdleTimeout": "60",
	"CrossZoneLoadBalancing.Enabled": "false", "AdditionalAttributes.elb.http.desyncmitigationmode": "defensive",
}

// classic is the normal form of a classic load balancer.
func classic(b *elb.LoadBalancer, symbols *symbol.Symbols) Object {
	listeners, policies, backends := Object{}, Object{}, Object{}
	for _, l := range b.Listeners {
		listeners[strconv.Itoa(l.Port)] = filled(Object{"to": fmt.Sprintf("%s %d", l.InstanceProtocol, l.InstancePort), "protocol": l.Protocol,
			"certificate": l.CertificateARN, "policies": l.Policies})
	}
	for _, p := range b.Policies {
		attributes := Object{}
		for _, a := range p.Attributes {
			attributes[a[0]] = a[1]
		}
		policies[p.Name] = filled(Object{"type": p.Type, "attributes": attributes})
	}
	for port, names := range b.Backends {
		if len(names) > 0 {
			backends[strconv.Itoa(port)] = slices.Clone(names)
		}
	}
	var subnets []string
	for _, s := range b.Subnets {
		subnets = append(subnets, s.ID)
	}
	return filled(Object{
		"scheme": b.Scheme, "subnets": set(subnets), "groups": fold(b.SecurityGroups, symbols), "listeners": listeners, "policies": policies,
		"backends": backends, "instances": set(b.Instances), "attributes": texts(b.Attributes, usualClassic), "tags": tags(b.Tags),
		"dns":   symbols.Fold(b.DNSName),
		"check": fmt.Sprintf("%s every %d, timeout %d, %d up, %d down", b.Check.Target, b.Check.Interval, b.Check.Timeout, b.Check.Healthy, b.Check.Unhealthy),
	})
}

// usualNetwork are the attributes of a new load balancer.
var usualNetwork = map[string]string{
	"deletion_protection.enabled": "false", "load_balancing.cross_zone.enabled": "false", "access_logs.s3.enabled": "false",
	"access_logs.s3.bucket": "", "access_logs.s3.prefix": "", "zonal_shift.config.enabled": "false",
	"dns_record.client_routing_policy": "any_availability_zone", "secondary_ips.auto_assigned.per_subnet": "0",
}

// balancer is the normal form of a network load balancer.
func (all *contents) balancer(b *elbv2.LoadBalancer, symbols *symbol.Symbols) Object {
	listeners, mappings := Object{}, Object{}
	for _, l := range all.listeners {
		if l.LoadBalancerARN != b.ARN {
			continue
		}
		o := filled(Object{"protocol": l.Protocol, "certificate": l.CertificateARN, "policy": l.SSLPolicy, "alpn": l.ALPN, "tags": tags(l.Tags)})
		for _, g := range all.groups {
			if g.ARN == l.TargetGroupARN {
				o["group"] = group(g)
			}
		}
		listeners[strconv.Itoa(l.Port)] = o
	}
	for _, m := range b.Mappings {
		mappings[m.SubnetID] = filled(Object{"allocation": m.AllocationID, "address": m.PrivateIP})
	}
	attributes := texts(b.Attributes, usualNetwork)
	delete(attributes, "ipv6.deny_all_igw_traffic") // follows the scheme
	return filled(Object{
		"type": b.Type, "scheme": b.Scheme, "addresses": b.IPAddressType, "mappings": mappings, "groups": set(fold(b.SecurityGroups, symbols)),
		"attributes": attributes, "tags": tags(b.Tags), "listeners": listeners, "dns": symbols.Fold(b.DNSName),
	})
}

// group is the normal form of a target group.
func group(g *elbv2.TargetGroup) Object {
	var targets []string
	for _, t := range g.Targets {
		if !t.Draining() {
			targets = append(targets, fmt.Sprintf("%s:%d", t.ID, t.Port))
		}
	}
	k := g.Check
	attributes := texts(g.Attributes, elbv2.UsualGroupAttributes(g.Protocol, g.TargetType))
	family := "" // of those that reach targets by IPv4
	if g.IPAddressType == "ipv6" {
		family = g.IPAddressType
	}
	return filled(Object{
		"name": g.Name, "protocol": g.Protocol, "addresses": family, "port": g.Port, "type": g.TargetType, "attributes": attributes, "tags": tags(g.Tags),
		"targets": set(targets), "check": strings.TrimSpace(fmt.Sprintf("%s %s every %d, timeout %d, %d up, %d down %s %s", k.Protocol, k.Port, k.Interval, k.Timeout,
			k.Healthy, k.Unhealthy, k.Path, k.Matcher)),
	})
}

// sharedCheck is the port that is checked of all Services where cloud.conf has them share a check.
const sharedCheck = 10256

// security notes a security group, or, of a given one, the rules that are there for a scenario.
func (c *Cloud) security(g *ec2.SecurityGroup, out map[string]State, scenarios []string, symbols *symbol.Symbols) {
	rules, given := Object{}, slices.Contains(c.Given, g.ID)
	for _, r := range g.Rules {
		if r.Egress {
			continue
		}
		from := r.CIDR + r.CIDR6 + r.PrefixList + symbols.Fold(r.Group)
		text := fmt.Sprintf("%s %d-%d from %s", r.Protocol, r.FromPort, r.ToPort, from)
		if !given {
			rules[text] = symbols.Fold(r.Description)
			continue
		}
		description := symbols.Fold(r.Description)
		owner := OwnerOf(strings.ReplaceAll(from+" "+description, "sg:k8s-elb-lb:", "sg:"), scenarios)
		if r.FromPort == sharedCheck {
			owner = "" // it names one of the Services that need it, whichever came first
		}
		out[owner].put("rule", g.ID+" "+text, description)
	}
	name := symbols.Fold(g.Name)
	if given || g.Name == "default" {
		return
	}
	o := filled(Object{"description": symbols.Fold(g.Description), "rules": rules, "tags": tags(g.Tags)})
	out[OwnerOf(name, scenarios)].put("sg", name, o)
}

// instance is what managers change of an instance.
func (c *Cloud) instance(i *ec2.Instance) Object {
	o := Object{"tags": texts(i.Tags, c.Usual)}
	if n := i.Primary(); n != nil && n.NoSourceDestCheck {
		o["forwards"] = true
	}
	return filled(o)
}
