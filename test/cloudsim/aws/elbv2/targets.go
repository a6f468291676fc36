package elbv2

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

// Target is a target of a group.
type Target struct {
	ID string
	// Port is the group's by default.
	Port int
	// Zone is an availability zone, or "all", for an address outside the VPC.
	Zone string

	since    time.Time // of the registration
	draining bool
}

// Draining says that it is deregistered, but may still have connections.
func (t Target) Draining() bool { return t.draining }

func (t Target) same(o Target) bool { return t.ID == o.ID && t.Port == o.Port }

// Health is what is said of a target.
type Health struct {
	// State is "healthy", "unhealthy", "initial", "unused", "draining" or "unavailable"; the latter five have a reason.
	State, Reason, Description string
}

type healthOf struct {
	group, target string
	port          int
}

// Register adds targets to a group, all or none. What is registered already stays.
func (r *Region) Register(arn string, targets []Target) error {
	r.lock()
	defer r.mu.Unlock()
	_, err := r.changeGroup(arn, func(g *TargetGroup) error {
		next := slices.Clone(g.Targets)
		if err := r.checkTargets(g, targets); err != nil {
			return err
		}
		for _, t := range targets {
			if t.Port == 0 {
				t.Port = g.Port
			}
			t.since = time.Now()
			if i := slices.IndexFunc(next, t.same); i < 0 {
				next = append(next, t)
			} else if next[i].draining {
				next[i] = t
			}
		}
		if len(next) > r.opts.Targets {
			return query.Errorf("TooManyTargets", "The maximum number of targets for target group '%s' has been reached", arn)
		}
		g.Targets = next
		return r.room(r.loadBalancerOf(arn), g)
	})
	return err
}

// room says whether a network load balancer may have the targets of a group, beside those of its other ones: a target counts once for
// each. Unverified is that those which are draining count. Locked.
func (r *Region) room(balancer string, g *TargetGroup) error {
	b := r.balancers.Get(balancer)
	if b == nil || b.Type != "network" {
		return nil
	}
	all := slices.Clone(g.Targets)
	for _, o := range r.groups.Where(func(o *TargetGroup) bool { return o.ARN != g.ARN && r.loadBalancerOf(o.ARN) == balancer }) {
		all = append(all, o.Targets...)
	}
	if len(all) <= r.opts.ZoneTargets {
		return nil
	}
	most := len(all)
	if b.Attributes["load_balancing.cross_zone.enabled"] != "true" {
		in := map[string]int{}
		most = 0
		for _, t := range all {
			zone := t.Zone
			if found, err := r.ec2.Instances([]string{t.ID}); err == nil {
				zone = found[0].Zone
			}
			in[zone]++
			most = max(most, in[zone])
		}
	}
	if most > r.opts.ZoneTargets || len(all) > r.opts.BalancerTargets { // the message is as reported, of another limit
		return query.Errorf("TooManyTargets", "The maximum number of targets per load balancer '%d' has been reached on load balancer '%s'",
			r.opts.ZoneTargets, balancer)
	}
	return nil
}

// checkTargets says whether targets can be those of a group. Only the message about a state is as reported. Locked.
func (r *Region) checkTargets(g *TargetGroup, targets []Target) error {
	if g.TargetType != "instance" {
		return nil
	}
	var idle, without []string
	for _, t := range targets {
		found, err := r.ec2.Instances([]string{t.ID})
		switch {
		case err != nil:
			return query.Errorf("InvalidTarget", "The following targets are not valid: '%s'", t.ID)
		case found[0].State != ec2.Running:
			idle = append(idle, "'"+t.ID+"'")
		case found[0].VPCID != g.VPCID:
			return query.Errorf("InvalidTarget", "The following targets are not in the target group VPC '%s': '%s'", g.VPCID, t.ID)
		case g.IPAddressType == ipv6 && lacksPrimaryIPv6(found[0]):
			without = append(without, "'"+t.ID+"'")
		}
	}
	if len(without) > 0 { // as reported: kubernetes-sigs/aws-load-balancer-controller#3692
		return query.Errorf("InvalidTarget",
			"The following targets cannot be used with this IPv6 target group because of missing primary IPv6 addresses: %s", strings.Join(without, ", "))
	}
	if len(idle) > 0 {
		return query.Errorf("InvalidTarget", "The following targets are not in a running state and cannot be registered: %s",
			strings.Join(idle, ", "))
	}
	return nil
}

// Deregister removes targets from a group. Those of a group in use are draining first. A target that is not there is fine.
func (r *Region) Deregister(arn string, targets []Target) error {
	r.lock()
	defer r.mu.Unlock()
	g, err := r.changeGroup(arn, func(g *TargetGroup) error {
		next := slices.Clone(g.Targets)
		for _, t := range targets {
			if t.Port == 0 {
				t.Port = g.Port
			}
			if i := slices.IndexFunc(next, t.same); i >= 0 {
				next[i].draining = true
			}
		}
		g.Targets = next
		return nil
	})
	if err != nil {
		return err
	}
	seconds, _ := strconv.Atoi(g.Attributes["deregistration_delay.timeout_seconds"])
	delay := time.Duration(seconds) * time.Second
	if r.loadBalancerOf(arn) == "" {
		delay = 0
	} else if r.opts.Draining > 0 {
		delay = min(delay, r.opts.Draining)
	}
	r.clock.After(delay, func() { r.drained(arn, g.Targets) })
	return nil
}

// drained removes the targets that were draining then, and are so still. Locked.
func (r *Region) drained(arn string, then []Target) {
	g := r.groups.Get(arn)
	if g == nil {
		return
	}
	next := *g
	next.Targets = slices.DeleteFunc(slices.Clone(g.Targets), func(t Target) bool {
		gone := t.draining && slices.ContainsFunc(then, func(o Target) bool {
			return o.draining && o.same(t) &&
				o.since.Equal(t.since)
		})
		if gone {
			delete(r.health, healthOf{arn, t.ID, t.Port})
		}
		return gone
	})
	r.groups.Put(&next)
}

// SetHealth says what is to be said of a registered target of a group in use; the zero Health is what is said by default.
func (r *Region) SetHealth(arn, target string, port int, h Health) {
	r.lock()
	defer r.mu.Unlock()
	key := healthOf{arn, target, port}
	if g := r.groups.Get(arn); h == (Health{}) || g == nil || !slices.ContainsFunc(g.Targets,
		Target{ID: target, Port: port}.same) {
		delete(r.health, key)
		return
	}
	r.health[key] = h
}

// TargetHealth is a target with what is said of it.
type TargetHealth struct {
	Target
	Health
}

// Health is that of a group's targets: of those asked for, or of all that are registered or draining.
func (r *Region) Health(arn string, targets []Target) ([]TargetHealth, error) {
	r.lock()
	defer r.mu.Unlock()
	g := r.groups.Get(arn)
	if g == nil {
		return nil, notFound("TargetGroupNotFound", "Target groups", []string{arn})
	}
	if len(targets) == 0 {
		targets = g.Targets
	}
	out := make([]TargetHealth, 0, len(targets))
	for _, t := range targets {
		if t.Port == 0 {
			t.Port = g.Port
		}
		out = append(out, TargetHealth{t, r.healthOf(g, t)})
	}
	return out, nil
}

// healthOf says something of a target. Locked.
func (r *Region) healthOf(g *TargetGroup, t Target) Health {
	i := slices.IndexFunc(g.Targets, t.same)
	if i < 0 {
		return Health{"unused", "Target.NotRegistered", "Target is not registered to the target group"}
	}
	t = g.Targets[i]
	if t.draining {
		return Health{"draining", "Target.DeregistrationInProgress", "Target deregistration is in progress"}
	}
	if r.loadBalancerOf(g.ARN) == "" {
		return Health{"unused", "Target.NotInUse", "Target group is not configured to receive traffic from the load balancer"}
	}
	if strings.HasPrefix(t.ID, "i-") {
		if found, err := r.ec2.Instances([]string{t.ID}); err != nil || found[0].State != ec2.Running &&
			found[0].State != ec2.Pending {
			return Health{"unused", "Target.InvalidState", "Target is in the stopped state"}
		}
	}
	if h, ok := r.health[healthOf{g.ARN, t.ID, t.Port}]; ok {
		return h
	}
	if time.Since(t.since) < r.opts.Probing {
		return Health{"initial", "Elb.RegistrationInProgress", "Target registration is in progress"}
	}
	return Health{State: "healthy"}
}
