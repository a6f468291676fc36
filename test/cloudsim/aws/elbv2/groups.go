package elbv2

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/store"
)

// TargetGroup is a target group.
type TargetGroup struct {
	store.Record
	ARN, Name, VPCID string
	// Protocol is "TCP", "UDP", "TCP_UDP" or "TLS", or what the other types of load balancers take.
	Protocol string
	Port     int
	// TargetType is "instance" by default, or "ip", IPAddressType "ipv4" by default.
	TargetType, IPAddressType string
	Check                     Check
	Attributes                map[string]string
	Tags                      map[string]string
	Targets                   []Target
}

// Check says how targets are probed. 0 and "" are what AWS takes by default.
type Check struct {
	Protocol, Port, Path, Matcher         string
	Interval, Timeout, Healthy, Unhealthy int
}

// Key is the ARN.
func (g *TargetGroup) Key() string { return g.ARN }

// complete takes what AWS takes by default for what a request leaves out.
func (k *Check) complete() {
	k.Protocol, k.Port = or(k.Protocol, "TCP"), or(k.Port, "traffic-port")
	timeout := 10
	switch k.Protocol {
	case "HTTP":
		timeout = 6
		fallthrough
	case "HTTPS":
		k.Path, k.Matcher = or(k.Path, "/"), or(k.Matcher, "200-399")
	}
	for _, d := range []struct {
		at *int
		is int
	}{{&k.Interval, 30}, {&k.Timeout, timeout}, {&k.Healthy, 5}, {&k.Unhealthy, 2}} {
		if *d.at == 0 {
			*d.at = d.is
		}
	}
}

// check refuses what is out of range. The messages are unverified.
func (k *Check) check() error {
	if !slices.Contains([]string{"TCP", "HTTP", "HTTPS"}, k.Protocol) {
		return query.Errorf("ValidationError", "Health check protocol '%s' is not supported", k.Protocol)
	}
	if n, err := strconv.Atoi(k.Port); k.Port != "traffic-port" && (err != nil || n < 1 || n > 65535) {
		return query.Errorf("ValidationError", "Health check port '%s' must be in the range 1-65535 or 'traffic-port'", k.Port)
	}
	for _, d := range []struct {
		name        string
		is          int
		least, most int
	}{
		{"Health check interval", k.Interval, 5, 300}, {"Health check timeout", k.Timeout, 2, 120},
		{"Healthy threshold count", k.Healthy, 2, 10}, {"Unhealthy threshold count", k.Unhealthy, 2, 10},
	} {
		if d.is < d.least || d.is > d.most {
			return query.Errorf("ValidationError", "%s '%d' must be between %d and %d", d.name, d.is, d.least, d.most)
		}
	}
	if k.Protocol == "TCP" && k.Path != "" {
		return query.Errorf("InvalidConfigurationRequest", "You cannot specify a health check path for a TCP health check")
	}
	return nil
}

// UsualGroupAttributes are those of a new target group for Network Load Balancers, by its protocol and the type of its targets.
func UsualGroupAttributes(protocol, kind string) map[string]string {
	udp := protocol == "UDP" || protocol == "TCP_UDP"
	return map[string]string{
		"deregistration_delay.timeout_seconds": "300", "deregistration_delay.connection_termination.enabled": strconv.FormatBool(udp),
		"stickiness.enabled": "false", "stickiness.type": "source_ip", "proxy_protocol_v2.enabled": "false",
		"preserve_client_ip.enabled":                                                     strconv.FormatBool(kind != "ip" || udp),
		"load_balancing.cross_zone.enabled":                                              "use_load_balancer_configuration",
		"target_group_health.dns_failover.minimum_healthy_targets.count":                 "1",
		"target_group_health.dns_failover.minimum_healthy_targets.percentage":            "off",
		"target_group_health.unhealthy_state_routing.minimum_healthy_targets.count":      "1",
		"target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage": "off",
		"target_health_state.unhealthy.connection_termination.enabled":                   strconv.FormatBool(!udp),
		"target_health_state.unhealthy.draining_interval_seconds":                        "0",
	}
}

// CreateTargetGroup makes a target group of what of its fields a request has. One that is there with the same settings is
// returned.
func (r *Region) CreateTargetGroup(in TargetGroup) (*TargetGroup, error) {
	r.lock()
	defer r.mu.Unlock()
	in.TargetType, in.IPAddressType = or(in.TargetType, "instance"), or(in.IPAddressType, ipv4)
	in.Check.complete()
	if err := errors.Join(checkName("Target group", in.Name), checkTags(in.Tags, nil), in.Check.check()); err != nil {
		return nil, err
	}
	if in.Port < 1 || in.Port > 65535 || in.Protocol == "" { // unverified message
		return nil, query.Errorf("ValidationError", "A port and a protocol must be specified")
	}
	if in.IPAddressType != ipv4 && in.IPAddressType != ipv6 { // unverified message
		return nil, query.Errorf("ValidationError", "The IP address type '%s' is not supported", in.IPAddressType)
	}
	if _, err := r.ec2.VPCs([]string{in.VPCID}); err != nil { // unverified message
		return nil, query.Errorf("ValidationError", "The VPC ID '%s' is not found", in.VPCID)
	}
	if same := r.groups.Where(func(o *TargetGroup) bool { return o.Name == in.Name }); len(same) > 0 {
		o := same[0]
		// Unverified is whether tags count.
		if o.Protocol != in.Protocol || o.Port != in.Port || o.TargetType != in.TargetType || o.VPCID != in.VPCID ||
			o.Check != in.Check ||
			o.IPAddressType != in.IPAddressType || !maps.Equal(o.Tags, in.Tags) {
			return nil, query.Errorf("DuplicateTargetGroupName",
				"A target group with the same name '%s' exists, but with different settings", in.Name)
		}
		return o, nil
	}
	if len(r.groups.All()) >= r.opts.TargetGroups {
		return nil, query.Errorf("TooManyTargetGroups", "The maximum number of target groups has been reached")
	}
	in.Record, in.ARN = r.clock.Record(), r.arn("targetgroup/"+in.Name+"/"+r.number())
	in.Attributes = UsualGroupAttributes(in.Protocol, in.TargetType)
	r.groups.Put(&in)
	return &in, nil
}

// LoadBalancerOf is the ARN of the load balancer that a target group is for, "" for none.
func (r *Region) LoadBalancerOf(group string) string {
	r.lock()
	defer r.mu.Unlock()
	return r.loadBalancerOf(group)
}

// loadBalancerOf is LoadBalancerOf. Locked.
func (r *Region) loadBalancerOf(group string) string {
	found := ""
	r.listeners.Any(func(l *Listener) bool {
		if l.TargetGroupARN == group {
			found = l.LoadBalancerARN
		}
		return found != ""
	})
	return found
}

// TargetGroups are those with these ARNs, or these names, or of a load balancer, or all.
func (r *Region) TargetGroups(arns, names []string, balancer string) ([]*TargetGroup, error) {
	r.lock()
	defer r.mu.Unlock()
	missing := notListed("TargetGroupNotFound", "target groups")
	switch {
	case len(names) > 0:
		return pick(&r.groups, names, func(g *TargetGroup) string { return g.Name }, missing)
	case balancer == "":
		return pick(&r.groups, arns, (*TargetGroup).Key, missing)
	case r.balancers.Get(balancer) == nil:
		return nil, notFound("LoadBalancerNotFound", "Load balancers", []string{balancer})
	}
	return r.groups.Where(func(g *TargetGroup) bool { return r.loadBalancerOf(g.ARN) == balancer }), nil
}

// changeGroup changes a target group. Locked.
func (r *Region) changeGroup(arn string, edit func(*TargetGroup) error) (*TargetGroup, error) {
	g := r.groups.Get(arn)
	if g == nil {
		return nil, notFound("TargetGroupNotFound", "Target groups", []string{arn})
	}
	next := *g
	if err := edit(&next); err != nil {
		return nil, err
	}
	r.groups.Put(&next)
	return &next, nil
}

// ModifyTargetGroup changes how a group's targets are probed; what is not set stays.
func (r *Region) ModifyTargetGroup(arn string, set Check) (*TargetGroup, error) {
	r.lock()
	defer r.mu.Unlock()
	return r.changeGroup(arn, func(g *TargetGroup) error {
		k := &g.Check
		if set.Protocol != "" && set.Protocol != k.Protocol && set.Protocol == "TCP" {
			k.Path, k.Matcher = "", ""
		}
		k.Protocol, k.Port = or(set.Protocol, k.Protocol), or(set.Port, k.Port)
		k.Path, k.Matcher = or(set.Path, k.Path), or(set.Matcher, k.Matcher)
		for _, d := range [][2]*int{
			{&k.Interval, &set.Interval}, {&k.Timeout, &set.Timeout}, {&k.Healthy, &set.Healthy}, {&k.Unhealthy, &set.Unhealthy},
		} {
			if *d[1] != 0 {
				*d[0] = *d[1]
			}
		}
		k.complete()
		return k.check()
	})
}

// SetGroupAttributes changes attributes of a target group. It returns it.
func (r *Region) SetGroupAttributes(arn string, attributes map[string]string) (*TargetGroup, error) {
	r.lock()
	defer r.mu.Unlock()
	return r.changeGroup(arn, func(g *TargetGroup) error {
		for k, v := range attributes {
			if _, ok := g.Attributes[k]; !ok { // unverified message
				return query.Errorf("ValidationError", "Target group attribute key '%s' is not recognized", k)
			}
			if k == "preserve_client_ip.enabled" && v == "false" && (g.Protocol == "UDP" ||
				g.Protocol == "TCP_UDP") { // unverified message
				return query.Errorf("InvalidConfigurationRequest", "Client IP preservation cannot be disabled for %s target groups",
					g.Protocol)
			}
		}
		g.Attributes = with(g.Attributes, attributes)
		return nil
	})
}

// DeleteTargetGroup deletes a target group that no listener names. One that is not there is fine.
func (r *Region) DeleteTargetGroup(arn string) error {
	r.lock()
	defer r.mu.Unlock()
	if r.held(arn) {
		return query.Errorf("ResourceInUse", "Target group '%s' is currently in use by a listener or a rule", arn)
	}
	r.groups.Remove(arn)
	for k := range r.health {
		if k.group == arn {
			delete(r.health, k)
		}
	}
	return nil
}
