package aws

import (
	"net/netip"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

// opening is a port that rules may let somebody in to.
type opening struct {
	protocol string // "tcp" or "udp"
	port     int
}

func (o opening) in(u *ec2.Rule) bool {
	return !u.Egress && (u.Protocol == "-1" || u.Protocol == o.protocol && u.FromPort <= o.port && o.port <= u.ToPort)
}

// rules are those of security groups that let somebody in.
func (w *World) rules(groups []string, to opening) ([]ec2.Rule, error) {
	if len(groups) == 0 {
		return nil, nil
	}
	all, err := w.region.SecurityGroups(groups)
	if err != nil {
		return nil, err
	}
	var out []ec2.Rule
	for _, g := range all {
		for _, u := range g.Rules {
			if to.in(&u) {
				out = append(out, u)
			}
		}
	}
	return out, nil
}

// clients are the addresses that security groups let in.
func (w *World) clients(groups []string, to opening) ([]netip.Prefix, error) {
	rules, err := w.rules(groups, to)
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, u := range rules {
		if u.CIDR == "" && u.CIDR6 == "" {
			continue
		}
		p, err := netip.ParsePrefix(u.CIDR + u.CIDR6)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// letsGroups reports whether security groups let in whoever has one of others.
func (w *World) letsGroups(groups, others []string, to opening) (bool, error) {
	rules, err := w.rules(groups, to)
	return slices.ContainsFunc(rules, func(u ec2.Rule) bool { return slices.Contains(others, u.Group) }), err
}

// everyone is clients as the suite has them: none are all.
func everyone(clients []netip.Prefix) []netip.Prefix {
	if slices.ContainsFunc(clients, func(p netip.Prefix) bool { return p.Bits() == 0 }) {
		return nil
	}
	return clients
}
