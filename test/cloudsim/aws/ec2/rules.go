package ec2

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

// Rule is a rule of a security group, with one source, or destination.
type Rule struct {
	ID     string
	Egress bool
	// Protocol is "tcp", "udp", "icmp", "icmpv6", a number, or "-1" for all; ports are of the first four alone.
	Protocol         string
	FromPort, ToPort int
	// One of CIDR, CIDR6, PrefixList and Group is set. GroupOwner is the group's account.
	CIDR, CIDR6, PrefixList, Group, GroupOwner string
	Description                                string
}

// HasPorts reports whether the rule's ports mean something.
func (u *Rule) HasPorts() bool {
	return slices.Contains([]string{"tcp", "udp", "icmp", "icmpv6"}, u.Protocol)
}

// same reports whether two rules allow the same. Descriptions don't matter.
func (u *Rule) same(o *Rule) bool {
	a, b := *u, *o
	a.ID, a.Description, a.GroupOwner, b.ID, b.Description, b.GroupOwner = "", "", "", "", "", ""
	return a == b
}

// peer is the rule as EC2's messages have it.
func (u *Rule) peer() string {
	protocol, ports := strings.ToUpper(u.Protocol), ""
	switch {
	case u.Protocol == "-1":
		protocol = "ALL"
	case u.Protocol == "icmp" || u.Protocol == "icmpv6":
		ports = fmt.Sprintf(", type: %d, code: %d", u.FromPort, u.ToPort) // unverified
	case u.HasPorts():
		ports = fmt.Sprintf(", from port: %d, to port: %d", u.FromPort, u.ToPort)
	}
	return fmt.Sprintf("peer: %s, %s%s, ALLOW", u.CIDR+u.CIDR6+u.PrefixList+u.Group, protocol, ports)
}

// check brings a rule from a request into the form in which it is kept. Locked.
func (r *Region) check(u *Rule) error {
	u.Protocol = strings.ToLower(u.Protocol)
	if name, ok := map[string]string{"6": "tcp", "17": "udp", "1": "icmp", "58": "icmpv6", "all": "-1"}[u.Protocol]; ok {
		u.Protocol = name
	}
	if n, err := strconv.Atoi(u.Protocol); !u.HasPorts() && (err != nil || n < -1 || n > 255) {
		return query.Errorf("InvalidParameterValue", "Invalid value '%s' for IP protocol. Unknown protocol.", u.Protocol)
	}
	if !u.HasPorts() {
		u.FromPort, u.ToPort = 0, 0
	}
	if u.Protocol == "tcp" || u.Protocol == "udp" {
		switch {
		case u.FromPort < 0 || u.ToPort < 0:
			return query.Errorf("InvalidParameterValue",
				"Invalid value 'Must specify both from and to ports with TCP/UDP.' for portRange.")
		case u.FromPort > u.ToPort || u.ToPort > 65535: // unverified message
			return query.Errorf("InvalidParameterValue", "Invalid value '%d-%d' for portRange.", u.FromPort, u.ToPort)
		}
	}
	for _, cidr := range []struct {
		text *string
		v6   bool
	}{{&u.CIDR, false}, {&u.CIDR6, true}} {
		if *cidr.text == "" {
			continue
		}
		p, err := netip.ParsePrefix(*cidr.text)
		if err != nil || p.Addr().Is6() != cidr.v6 {
			return query.Errorf("InvalidParameterValue", "CIDR block %s is malformed", *cidr.text)
		}
		*cidr.text = p.Masked().String() // unverified: whether EC2 does so, as it does for routes
	}
	if u.Group != "" {
		if u.GroupOwner == "" {
			u.GroupOwner = r.account
		}
		if u.GroupOwner == r.account {
			_, err := get(&r.groups, "sg", u.Group, r.hiddenGroup)
			return err
		}
	}
	return nil
}

// counts are how many rules for what comes in a group has for IPv4 and for IPv6. One that names a group counts for both.
func counts(rules []Rule) (v4, v6 int) {
	for _, u := range rules {
		if !u.Egress && u.CIDR6 == "" {
			v4++
		}
		if !u.Egress && u.CIDR == "" {
			v6++
		}
	}
	return v4, v6
}

// Authorize adds rules to a group, all or none. It returns the rules as they were added.
func (r *Region) Authorize(id string, rules []Rule) ([]Rule, error) {
	r.lock()
	defer r.mu.Unlock()
	g, err := get(&r.groups, "sg", id, r.hiddenGroup)
	if err != nil {
		return nil, err
	}
	next := g.clone()
	for _, u := range rules {
		if err := r.check(&u); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(g.Rules, func(o Rule) bool { return u.same(&o) }) {
			return nil, query.Errorf("InvalidPermission.Duplicate", "the specified rule \"%s\" already exists", u.peer())
		}
		if slices.ContainsFunc(next.Rules, func(o Rule) bool { return u.same(&o) }) {
			return nil, query.Errorf("InvalidParameterValue", "The same permission must not appear multiple times")
		}
		u.ID = r.newID("sgr")
		next.Rules = append(next.Rules, u)
	}
	v4, v6 := counts(next.Rules)
	if v4 > r.opts.RulesPerGroup || v6 > r.opts.RulesPerGroup {
		return nil, query.Errorf("RulesPerSecurityGroupLimitExceeded",
			"The maximum number of rules per security group has been reached.")
	}
	r.groups.Put(next)
	return next.Rules[len(g.Rules):], nil
}

// Revoke removes rules from a group. What the group does not have fails all, but in the default VPC: there it is passed over,
// and returned.
func (r *Region) Revoke(id string, rules []Rule) (unknown []Rule, err error) {
	r.lock()
	defer r.mu.Unlock()
	g, err := get(&r.groups, "sg", id, r.hiddenGroup)
	if err != nil {
		return nil, err
	}
	vpc := r.vpcs.Get(g.VPCID)
	next := g.clone()
	for _, u := range rules {
		if u.ID == "" {
			if err := r.check(&u); err != nil {
				return nil, err
			}
		}
		i := slices.IndexFunc(next.Rules, func(o Rule) bool { return u.ID == "" && u.same(&o) || u.ID != "" && u.ID == o.ID })
		switch {
		case i >= 0:
			next.Rules = slices.Delete(next.Rules, i, i+1)
		case u.ID != "":
			return nil, query.Errorf("InvalidSecurityGroupRuleId.NotFound", "The security group rule ID '%s' does not exist", u.ID)
		case vpc == nil || !vpc.Default:
			return nil, query.Errorf("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
		default:
			unknown = append(unknown, u)
		}
	}
	r.groups.Put(next)
	return unknown, nil
}
