package elbv2

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
)

// Quotas of AWS that nobody has had raised: targets of a load balancer in a zone, or in all together where it balances across zones;
// targets of a load balancer; targets of a target group. An instance that is in several target groups counts as often.
const (
	zoneTargets     = 500
	balancerTargets = 3000
	groupTargets    = 1000
)

// retryFull is when to try again what waits for targets that leave, which may take some minutes.
const retryFull = time.Minute

// tooMany reports whether AWS allows a load balancer, or a target group, no more targets.
func tooMany(err error) bool {
	return cloud.KindOf(err) == cloud.KindQuota && strings.Contains(err.Error(), "TooManyTargets")
}

// choose chooses the members that shall be targets: all, but of a load balancer that is new, or has been full lately, those that its
// target groups have room for by AWS' default quotas. So none of the groups takes the others' room.
func (o *operation) choose(context.Context) error {
	o.targets = o.members
	if o.made || o.m.full {
		o.targets = o.fitting()
	}
	return nil
}

// fitting are as many members as AWS allows by default, zone by zone, or as it has allowed already: quotas may have been raised. Those
// that are targets stay.
func (o *operation) fitting() []string {
	groups := cmp.Or(len(o.wish.Listeners), len(o.m.balancer.Groups), 1)
	zones, all := o.allowed(groups)
	sorted := slices.Clone(o.members)
	of := o.groupsOf()
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(of[b], of[a]) })
	in := map[string]int{}
	out := slices.DeleteFunc(sorted, func(id string) bool {
		z := o.found[id].Zone
		if in[z] >= zones(z) || all == 0 {
			return true
		}
		in[z]++
		all--
		return false
	})
	slices.Sort(out)
	return out
}

// allowed is how many members there may be in a zone, and in all, where each is in so many target groups. What is in a target group that
// no listener has yet, AWS has not allowed the load balancer.
func (o *operation) allowed(groups int) (zones func(string) int, all int) {
	in, total, most := map[string]int{}, 0, 0
	for _, g := range o.m.balancer.Groups {
		if !slices.Contains(g.Balancers, o.m.balancer.ARN) {
			continue
		}
		for _, t := range g.Targets {
			in[o.found[t.ID].Zone]++
		}
		total, most = total+len(g.Targets), max(most, len(g.Targets))
	}
	zones = func(z string) int { return max(max(zoneTargets, in[z])/groups, 1) }
	if o.wish.CrossesZones() {
		return zones, max(max(zoneTargets, total)/groups, 1)
	}
	return zones, max(min(max(groupTargets, most), max(balancerTargets, total)/groups), 1)
}

// groupsOf says of the load balancer's targets in how many target groups they are.
func (o *operation) groupsOf() map[string]int {
	out := map[string]int{}
	for _, g := range o.m.balancer.Groups {
		for _, t := range g.Targets {
			out[t.ID]++
		}
	}
	return out
}

// apply makes the changes that replan has told. Where AWS allows no more targets, it makes those for fewer of them, and what is refused
// still keeps nothing else from being done. Last come the members beside, as far as AWS takes them: quotas may be higher than by default.
func (o *operation) apply(replan step) step {
	return func(ctx context.Context) error {
		err := o.carryOut(ctx)
		if errors.Is(err, errFull) {
			o.fewer, o.targets = true, o.fitting()
			if err = replan(ctx); err == nil {
				err = o.carryOut(ctx)
			}
		}
		if err != nil || o.full != nil || !o.made || len(o.targets) == len(o.members) {
			return err
		}
		o.fewer = true
		o.changes = slices.DeleteFunc(plan.Members(o.m.balancer, o.members), func(c plan.Change) bool { return c.Op != plan.Register })
		return o.carryOut(ctx)
	}
}

// carryOut makes the changes, one request each, and keeps what is remembered in line. It is errFull when AWS has refused targets, and fewer
// have not been tried.
func (o *operation) carryOut(ctx context.Context) error {
	for _, c := range o.changes {
		err := o.change(ctx, c)
		if err == nil {
			continue
		}
		if !tooMany(err) {
			return err
		}
		register := c.Op == plan.Register
		if register && o.leaves(c.Group.ARN) {
			o.comeBack("some Nodes get no traffic until others' instances have left: %w", err)
			continue
		}
		if o.full = err; !o.fewer {
			return errFull
		}
		if !register && o.later == nil {
			o.later = &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: retryFull,
				Err: fmt.Errorf("port %d is served when targets of other ports have left: %w", c.Listener.Port, err)}
		}
	}
	return nil
}

// errFull says that AWS allows no more targets.
var errFull = errors.New("AWS allows no more targets")

// tellFull remembers and tells whether AWS has left out members.
func (o *operation) tellFull(context.Context) error {
	if o.m.full = o.full != nil || o.m.full && len(o.targets) < len(o.members); o.m.full {
		o.warnings = append(o.warnings, "some Nodes get no traffic, as AWS allows the load balancer no more targets: have its quotas raised, "+
			`such as "Targets per Availability Zone per Network Load Balancer", or choose Nodes by `+annotations.NodeLabels)
	}
	return nil
}

// settleMembers is settle where nobody reads warnings: an error tells that some of the members are no targets.
func (o *operation) settleMembers(ctx context.Context) error {
	if err := o.settle(ctx); err != nil {
		return err
	}
	return o.full
}
