package elbv2

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
)

// memory is what there is for a Service, as far as is known.
type memory struct {
	// balancer is nil where there is none; left are target groups that are left over then.
	balancer *plan.Balancer
	left     []*plan.TargetGroup
	// foreign says that there is a load balancer of the name that is somebody else's.
	foreign bool
	read    time.Time
	// wish is that with which Ensure has ended, rules are those of Nodes that have been made. Nil is none.
	wish  *plan.Wish
	rules *vpc.NodeRules
	// full says that AWS has allowed no more targets.
	full bool
	// repaired was put right, which has not been told yet.
	repaired []string
}

func (m *memory) clone() *memory {
	out := *m
	if m.balancer != nil {
		out.balancer = m.balancer.Clone()
	}
	out.left = make([]*plan.TargetGroup, 0, len(m.left))
	for _, g := range m.left {
		out.left = append(out.left, g.Clone())
	}
	return &out
}

// operation is one call for one Service.
type operation struct {
	*LoadBalancers
	spec *cloud.LoadBalancerSpec
	wish *plan.Wish
	m    *memory

	// found are the instances behind the load balancer, members their IDs, and targets those of them that are to be targets.
	found   map[string]vpc.Instance
	members []string
	targets []string
	// full is why AWS has refused targets, nil if it has not. fewer says that no fewer can be tried.
	full    error
	fewer   bool
	changes []plan.Change
	// wanted are the security groups that the load balancer shall have; nil leaves them as they are.
	wanted []string
	// later is why the operation has to be made again, once all else is done; the first reason counts.
	later    error
	warnings []string
	repaired []string
	// shut is why Nodes do not let the load balancer in, or not all of them; all else is done.
	shut error
	// aside says that what was tried last is not about the load balancer itself, of which it leaves nothing in doubt.
	aside bool
	// made says that this operation has made the load balancer, handed that it is somebody else's by now, with what it needs.
	made, handed bool
}

type step = func(context.Context) error

// run makes the steps one after the other, and remembers what there is then.
func (o *operation) run(ctx context.Context, steps ...step) error {
	for _, s := range steps {
		if err := s(ctx); err != nil {
			o.remember(err)
			return &cloud.Error{Kind: cloud.KindOf(err), RetryAfter: cloud.RetryAfter(err), Progress: cloud.HasProgress(err),
				Op: "network load balancer " + o.wish.Name, Err: err}
		}
	}
	o.remember(nil)
	return nil
}

// remember keeps what is known, unless a request may have changed something that nobody has seen.
func (o *operation) remember(err error) {
	switch kind := cloud.KindOf(err); kind {
	case cloud.KindUnknown, cloud.KindUnavailable, cloud.KindStale, cloud.KindNotFound:
		if err == nil || o.aside {
			break
		}
		if o.m == nil && (kind == cloud.KindUnknown || kind == cloud.KindUnavailable) {
			return // it could not be looked at, so that nothing was changed
		}
		o.memories.Forget(o.spec.UID)
		o.doubt(o.spec.LoadBalancerRef)
		return
	}
	if o.m == nil || o.m.balancer == nil {
		o.memories.Forget(o.spec.UID)
		return
	}
	o.m.repaired = o.repaired
	if err == nil {
		o.m.repaired = nil
	}
	o.memories.Put(o.spec.UID, o.m.clone(), o.now(), o.now().Add(memoryAge))
}

func (o *operation) observe(ctx context.Context) error {
	attributes := slices.ContainsFunc(o.wish.Listeners, func(l plan.Listener) bool { return l.Wanted.Attributes != nil })
	m, err := o.LoadBalancers.observe(ctx, o.spec, attributes)
	if err != nil {
		return err
	}
	o.m, o.repaired = m, m.repaired
	return nil
}

// ours refuses a load balancer that has the name but is somebody else's, and marks one that has no mark, or in a verification not all
// tags.
func (o *operation) ours(ctx context.Context) error {
	b := o.m.balancer
	if b == nil && o.m.foreign {
		return cloud.Errorf(cloud.KindConflict,
			"it is somebody else's by its tags; delete it, or give it the tags kubernetes.io/cluster/%s = owned and kubernetes.io/service-name = %s/%s",
			o.spec.Cluster.ID, o.spec.Namespace, o.spec.Name)
	}
	if b == nil {
		return nil
	}
	var bare []string
	marked := true // as the Service's: then what else is missing can wait
	lacks := func(tags map[string]string) bool { return o.spec.Verify && !o.wish.TagsHeldBy(tags) }
	if known := judge(b.Tags, o.spec.LoadBalancerRef, true, "") == cloud.Ours; !known || lacks(b.Tags) {
		marked = marked && known
		bare = append(bare, b.ARN)
		o.repair("tags were set")
	}
	for _, g := range b.Groups {
		if known := judgeGroup(g, o.spec.LoadBalancerRef, false) == cloud.Ours; !known || lacks(g.Tags) {
			marked = marked && known
			bare = append(bare, g.ARN)
			o.repair("tags of target group " + g.Name + " were set")
		}
	}
	if len(bare) == 0 {
		return nil
	}
	if err := o.c.AddBalancerTags(ctx, bare, o.wish.Tags); err != nil {
		if marked && cloud.KindOf(err) == cloud.KindInvalid { // the rest of the wish does not wait for it
			o.repaired, o.warnings = nil, append(o.warnings, "tags were not set: "+err.Error())
			return nil
		}
		return err
	}
	b.Tags = merged(b.Tags, o.wish.Tags)
	o.put()
	for _, g := range b.Groups {
		if slices.Contains(bare, g.ARN) {
			g.Tags = merged(g.Tags, o.wish.Tags)
			o.enter(g)
		}
	}
	return nil
}

func (o *operation) exists(context.Context) error {
	if o.m.balancer == nil {
		return cloud.Errorf(cloud.KindNotFound, "there is none")
	}
	return nil
}

// instances are those of the members that the load balancer can reach.
func (o *operation) instances(ctx context.Context) error {
	o.aside = true
	nodes, stay := o.spec.Members, o.spec.Frozen && len(o.spec.Members) == 0
	if stay {
		nodes = o.spec.Candidates
	}
	var later, err error
	if o.found, later, err = o.network.Instances(ctx, nodes); err != nil {
		return err
	}
	if !stay {
		o.later = cmp.Or(o.later, later)
	}
	for id, i := range o.found {
		if i.VPC == o.m.balancer.VPC {
			o.members = append(o.members, id)
		}
	}
	slices.Sort(o.members)
	if want := idsOf(nodes); len(o.members) == 0 && len(want) > 0 && o.hasTargets() {
		return cloud.Errorf(cloud.KindUnknown,
			"EC2 knows none of the %d instances of Nodes, such as %s, in the load balancer's VPC %s, so it keeps its own; are the credentials, the region and the VPC the cluster's?",
			len(want), want[0], o.m.balancer.VPC)
	}
	o.aside = false
	return nil
}

// idsOf are the IDs of Nodes' instances; others are no instances of EC2's.
func idsOf(members []cloud.LoadBalancerMember) []string {
	var out []string
	for _, m := range members {
		if id, err := providerid.Parse(m.Node.ProviderID); err == nil {
			out = append(out, id)
		}
	}
	return out
}

func (o *operation) hasTargets() bool {
	return slices.ContainsFunc(o.m.balancer.Groups, func(g *plan.TargetGroup) bool { return len(g.Targets) > 0 })
}

func (o *operation) plan(context.Context) error {
	o.changes = plan.Diff(o.m.balancer, o.wish, o.targets)
	for _, c := range o.changes {
		o.repair(c.String())
	}
	return nil
}

// repair notes what is put right of a load balancer that was there before. Whether others have changed it says whoever knows that
// the Service has not.
func (o *operation) repair(what ...string) {
	if o.spec.Verify && !o.made {
		o.repaired = append(o.repaired, what...)
	}
}

// planMembers brings the members into all target groups. Of a Service that selects none by mistake those go that are no Nodes any
// more, but never all.
func (o *operation) planMembers(context.Context) error {
	members := o.targets
	if o.spec.Frozen && len(o.spec.Members) == 0 {
		members = slices.DeleteFunc(slices.Clone(members), func(id string) bool { return !o.has(id) })
		if len(members) == 0 {
			return nil
		}
	}
	o.changes = plan.Members(o.m.balancer, members)
	return nil
}

// has reports whether an instance is a target.
func (o *operation) has(id string) bool {
	return slices.ContainsFunc(o.m.balancer.Groups, func(g *plan.TargetGroup) bool {
		return slices.ContainsFunc(g.Targets, func(t plan.Target) bool { return t.ID == id })
	})
}

// letIn opens the security groups of Nodes, with those of other Services.
func (o *operation) letIn(ctx context.Context) error {
	clients, others := o.wish.Arriving(o.m.balancer)
	want := vpc.NodeRules{LoadBalancer: o.wish.Name, Instances: o.members, Clients: clients, HealthPorts: o.wish.HealthPorts()}
	want.Ports, want.Protocol = o.wish.NodePorts()
	if others {
		want.HealthPorts = slices.Compact(slices.Sorted(slices.Values(slices.Concat(want.HealthPorts, want.Ports))))
	}
	return o.open(ctx, want)
}

// letChecksIn keeps the security groups of Nodes open for the checks that target groups make at other ports than their own, where the
// Service wants what cannot be: a rule for them may have the name of another Service's load balancer, and would go with that.
func (o *operation) letChecksIn(ctx context.Context) error {
	want := vpc.NodeRules{LoadBalancer: o.wish.Name, Instances: o.members, HealthPorts: o.m.balancer.CheckPorts(), Frozen: true}
	if len(want.HealthPorts) == 0 || o.m.rules != nil && !o.m.rules.Frozen { // made by this process, which knows of them
		return nil
	}
	return o.open(ctx, want)
}

// open makes the rules, for what the load balancer checks from its subnets, unless they are made already.
func (o *operation) open(ctx context.Context, want vpc.NodeRules) error {
	subnets, err := o.network.Subnets(ctx, o.m.balancer.Internal, o.m.balancer.Subnets)
	if err != nil {
		return err
	}
	for _, s := range subnets {
		want.Subnets = append(want.Subnets, family.Ranges(s.CIDRs, o.m.balancer.TargetsIPv6())...)
	}
	slices.SortFunc(want.Subnets, func(x, y netip.Prefix) int { return strings.Compare(x.String(), y.String()) })
	if o.m.rules != nil && reflect.DeepEqual(*o.m.rules, want) {
		return nil
	}
	o.m.rules = nil // what there is if it fails nobody knows
	changed, err := o.network.EnsureNodeRules(ctx, o.spec.LoadBalancerRef, want)
	if err != nil && cloud.KindOf(err) != cloud.KindRetryAfter {
		o.shut = err
		return nil
	}
	if err != nil {
		return err
	}
	o.repair(changed...)
	o.m.rules = &want
	return nil
}

// patience is how long a call waits for a new load balancer where nobody tells of its end.
const patience = 2 * time.Second

// waitActive waits for a new load balancer, without a worker where the Service is told of the end.
func (o *operation) waitActive(ctx context.Context) error {
	b := o.m.balancer
	if b.State == provisioning {
		var d time.Duration
		if !o.waiter.Tells() {
			d = patience
		}
		state, err := o.waiter.Wait(ctx, o.spec.LoadBalancerRef, b.ARN, d)
		if err != nil {
			return err
		}
		if b.State = state; state == "" {
			return cloud.Errorf(cloud.KindStale, "it is gone")
		}
		o.put()
	}
	if b.State == failed {
		return cloud.Errorf(cloud.KindFailed, "AWS could not make it; delete the Service, or see what AWS says of %s", b.ARN)
	}
	return nil
}

// settle ends an operation after which nothing is left to do.
func (o *operation) settle(context.Context) error {
	o.aside = o.shut != nil
	if err := cmp.Or(o.shut, o.later); err != nil {
		return err
	}
	o.m.wish = o.wish
	return nil
}

// comeBack notes that something has to be done later.
func (o *operation) comeBack(format string, args ...any) {
	if o.later == nil {
		o.later = &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: again, Err: fmt.Errorf(format, args...)}
	}
}
