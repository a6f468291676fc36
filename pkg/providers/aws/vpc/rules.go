package vpc

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// allProtocols is the protocol of a rule that lets everything in.
const allProtocols = "-1"

// atom is a rule with one source: a CIDR, or the ID of a group or of a prefix list. EC2 tells rules apart by this. The ports of a
// protocol that has none are -1.
type atom struct {
	protocol string
	from, to int32
	source   string
}

// atoms are rules, with their descriptions.
type atoms map[atom]string

// atomsOf takes rules apart.
func atomsOf(rules []Rule) atoms {
	out := atoms{}
	for _, r := range rules {
		a := atom{protocol: r.Protocol, from: r.From, to: r.To}
		if a.protocol == allProtocols {
			a.from, a.to = -1, -1
		}
		for _, p := range r.CIDRs {
			a.source = p.Masked().String()
			out[a] = r.Description
		}
		for _, g := range r.Groups {
			a.source = g
			out[a] = r.Description
		}
	}
	return out
}

// atomsIn takes the rules of a group apart.
func atomsIn(permissions []types.IpPermission) atoms {
	out := atoms{}
	for _, p := range permissions {
		a := atom{protocol: aws.ToString(p.IpProtocol), from: -1, to: -1}
		if p.FromPort != nil && p.ToPort != nil && a.protocol != allProtocols {
			a.from, a.to = *p.FromPort, *p.ToPort
		}
		add := func(source, description *string) {
			a.source = aws.ToString(source)
			out[a] = aws.ToString(description)
		}
		for _, r := range p.IpRanges {
			add(r.CidrIp, r.Description)
		}
		for _, r := range p.Ipv6Ranges {
			add(r.CidrIpv6, r.Description)
		}
		for _, r := range p.PrefixListIds {
			add(r.PrefixListId, r.Description)
		}
		for _, r := range p.UserIdGroupPairs {
			add(r.GroupId, r.Description)
		}
	}
	return out
}

// difference is what to add to have and what to drop from it so that it lets in what want does.
func difference(have, want atoms) (add, drop atoms) {
	missing := func(in atoms) func(atom, string) bool {
		return func(a atom, _ string) bool { _, there := in[a]; return there }
	}
	add, drop = maps.Clone(want), maps.Clone(have)
	maps.DeleteFunc(add, missing(have))
	maps.DeleteFunc(drop, missing(want))
	return add, drop
}

// permissions are atoms as EC2 takes them, in an order: sources of the same ports together.
func (a atoms) permissions() []types.IpPermission {
	var out []types.IpPermission
	var before atom
	for _, one := range slices.SortedFunc(maps.Keys(a), compareAtoms) {
		last := len(out) - 1
		if last < 0 || !same(&before, &one) {
			p := types.IpPermission{IpProtocol: &one.protocol}
			if one.hasPorts() {
				p.FromPort, p.ToPort = &one.from, &one.to
			}
			out, last, before = append(out, p), last+1, one
		}
		p, description := &out[last], aws.String(a[one])
		if *description == "" {
			description = nil
		}
		switch {
		case strings.HasPrefix(one.source, "sg-"):
			p.UserIdGroupPairs = append(p.UserIdGroupPairs, types.UserIdGroupPair{GroupId: &one.source, Description: description})
		case strings.HasPrefix(one.source, "pl-"):
			p.PrefixListIds = append(p.PrefixListIds, types.PrefixListId{PrefixListId: &one.source, Description: description})
		case strings.Contains(one.source, ":"):
			p.Ipv6Ranges = append(p.Ipv6Ranges, types.Ipv6Range{CidrIpv6: &one.source, Description: description})
		default:
			p.IpRanges = append(p.IpRanges, types.IpRange{CidrIp: &one.source, Description: description})
		}
	}
	return out
}

func (a atom) hasPorts() bool {
	return a.protocol != allProtocols && (a.from != -1 || a.to != -1) || strings.HasPrefix(a.protocol, "icmp")
}

// same reports whether two rules differ in their sources at most.
func same(a, b *atom) bool { return a.protocol == b.protocol && a.from == b.from && a.to == b.to }

func compareAtoms(a, b atom) int {
	return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to),
		cmp.Compare(a.source, b.source))
}

// change is what to do to the rules of a group: add, then drop, then add again what could not be added before as the group had it,
// under another description.
type change struct{ add, drop, again atoms }

// write changes the rules of a group. What is new is let in before what is old is shut out, unless the group has no room for both.
func (n *Network) write(ctx context.Context, id string, c change) error {
	full := false
	if len(c.add) > 0 {
		err := n.c.AuthorizeIngress(ctx, id, c.add.permissions())
		if full = cloud.KindOf(err) == cloud.KindQuota && len(c.drop) > 0; err != nil && !full {
			return err
		}
	}
	if len(c.drop) > 0 {
		if err := n.c.RevokeIngress(ctx, id, c.drop.permissions()); err != nil {
			return err
		}
	}
	if len(c.again) > 0 { // alone, as others need it
		if err := n.c.AuthorizeIngress(ctx, id, c.again.permissions()); err != nil {
			return n.restore(ctx, id, c, full, err)
		}
	}
	if !full {
		return nil
	}
	return n.restore(ctx, id, c, full, n.c.AuthorizeIngress(ctx, id, c.add.permissions()))
}

// restore lets in again who was let in before, where those were shut out to make room and, whatever the reason, others have not been
// let in: no later pass would know of them.
func (n *Network) restore(ctx context.Context, id string, c change, full bool, err error) error {
	if err == nil || !full {
		return err
	}
	before := maps.Clone(c.drop)
	maps.DeleteFunc(before, func(a atom, _ string) bool { _, there := c.again[a]; return there })
	if len(before) == 0 {
		return err
	}
	if failed := n.c.AuthorizeIngress(context.WithoutCancel(ctx), id, before.permissions()); failed != nil { // it has a deadline of its own
		return errors.Join(err, failed)
	}
	return err
}
