package elbv2

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/await"
	"github.com/isthmus-cloud/isthmus/pkg/batcher"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
)

var (
	_ cloud.LoadBalancers = (*LoadBalancers)(nil)
	_ cloud.Waiting       = (*LoadBalancers)(nil)
)

const (
	// memoryAge is for how long what was read or made is believed without a verification.
	memoryAge = 12 * time.Hour
	// again is when to look again at what AWS does not say the end of: target groups and instances that are let go.
	again = 10 * time.Second
)

// LoadBalancers implements cloud.LoadBalancers with network load balancers. One call at a time is made for each Service.
type LoadBalancers struct {
	c       *api.Client
	cfg     *config.Global
	network *vpc.Network
	store   *store
	// memories are what there is of each Service's load balancer, by its UID, when the last operation ended.
	memories inventory.Memory[string, *memory]
	// doubts are when something of a Service's may have changed that nobody has seen, by its UID. The lists of before are too old for it,
	// and good enough for others.
	doubts inventory.Memory[string, time.Time]
	// marks reads the tags of what is about to be deleted.
	marks  *batcher.Batcher[string, cloud.Result[map[string]string]]
	waiter *await.Waiter[string]
	now    func() time.Time
}

// New makes the network load balancers of the client's region.
func New(c *api.Client, cfg *config.Global, network *vpc.Network, pace await.Pace) *LoadBalancers {
	l := &LoadBalancers{c: c, cfg: cfg, network: network, now: time.Now}
	l.store = &store{c: c}
	l.store.all.Read = c.Keep("load_balancers")
	l.store.all.Now = func() time.Time { return l.now() }
	l.marks = batcher.New[string, cloud.Result[map[string]string]](batcher.Options{})
	l.waiter = await.New(l.poll, pace)
	return l
}

// Attach implements cloud.Waiting. The network is attached by whoever has made it.
func (l *LoadBalancers) Attach(ctx context.Context, again func(cloud.LoadBalancerRef)) {
	l.waiter.Attach(ctx, again)
}

// poll returns the states of load balancers that are not being made any more, by their ARNs: "" of those that are gone.
func (l *LoadBalancers) poll(ctx context.Context, arns []string) (map[string]string, error) {
	all, err := l.c.Balancers(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(arns))
	for _, arn := range arns {
		out[arn] = ""
	}
	for i := range all {
		b := balancerOf(&all[i])
		if _, asked := out[b.ARN]; asked && b.State == provisioning {
			delete(out, b.ARN)
		} else if asked {
			out[b.ARN] = b.State
		}
	}
	return out, nil
}

// Ensure implements cloud.LoadBalancers. The host name is told as soon as there is one.
func (l *LoadBalancers) Ensure(ctx context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	o := &operation{LoadBalancers: l, spec: spec, wish: plan.Resolve(l.cfg, spec)}
	if err := o.wish.Refused(); err != nil {
		return nil, err
	}
	err := o.run(ctx, o.observe, o.ours, o.families, o.securityGroups, o.create, o.setSecurityGroups, o.widen, o.narrow, o.instances, o.reach, o.choose,
		o.plan, o.apply(o.plan), o.tellFull, o.tellSubnets, o.narrow, o.dropSecurityGroup, o.letIn, o.waitActive, o.settle)
	return o.status(err), err
}

// UpdateMembers implements cloud.LoadBalancers.
func (l *LoadBalancers) UpdateMembers(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	o := &operation{LoadBalancers: l, spec: spec, wish: plan.Resolve(l.cfg, spec)}
	steps := []step{o.observe, o.exists, o.instances, o.targetable, o.choose, o.planMembers, o.apply(o.planMembers), o.tellFull}
	if spec.Frozen || o.wish.Refused() != nil {
		steps = append(steps, o.letChecksIn)
	} else {
		steps = append(steps, o.families, o.letIn)
	}
	return o.run(ctx, append(steps, o.settleMembers)...)
}

// Delete implements cloud.LoadBalancers.
func (l *LoadBalancers) Delete(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	o := &operation{LoadBalancers: l, spec: spec, wish: plan.Resolve(l.cfg, spec)}
	return o.run(ctx, o.observe, o.lookAgain, o.askWhose, o.deleteBalancer, o.deleteGroups, o.shutOut, o.deleteSecurityGroup, o.settle)
}

// lists are all load balancers and target groups, as of a read that is at most so old, and no older than what is in doubt of the Service.
func (l *LoadBalancers) lists(ctx context.Context, ref cloud.LoadBalancerRef, age time.Duration) (objects, error) {
	now := l.now()
	since := now.Add(-age)
	if doubt, ok := l.doubts.Get(ref.UID, now); ok && doubt.After(since) {
		since = doubt
	}
	return l.store.get(ctx, since)
}

// doubt has the lists read anew for a Service, before it is looked at again.
func (l *LoadBalancers) doubt(ref cloud.LoadBalancerRef) {
	now := l.now()
	l.doubts.Put(ref.UID, now, now, now.Add(listAge))
}

// Serves reports whether the Service has a network load balancer, by what all Services share.
func (l *LoadBalancers) Serves(ctx context.Context, ref cloud.LoadBalancerRef) (bool, error) {
	all, err := l.lists(ctx, ref, listAge)
	if err != nil {
		return false, err
	}
	b, _, _ := find(all, ref)
	return b != nil, nil
}

// Exists reports whether there is anything of a network load balancer for the Service, by what all Services share.
func (l *LoadBalancers) Exists(ctx context.Context, ref cloud.LoadBalancerRef) (bool, error) {
	all, err := l.lists(ctx, ref, listAge)
	if err != nil {
		return false, err
	}
	if b, groups, _ := find(all, ref); b != nil || len(groups) > 0 {
		return true, nil
	}
	group, err := l.network.FindGroup(ctx, ref, plan.GroupName(ref))
	return group != "", err
}

// status is what is told of a load balancer, nil where there is none.
func (o *operation) status(err error) *cloud.LoadBalancerStatus {
	if err != nil && o.shut == nil && cloud.KindOf(err) != cloud.KindRetryAfter || o.m == nil || o.m.balancer == nil || o.m.balancer.DNSName == "" {
		return nil
	}
	s := &cloud.LoadBalancerStatus{
		ID:       o.m.balancer.ARN,
		Ingress:  []corev1.LoadBalancerIngress{{Hostname: o.m.balancer.DNSName}},
		Warnings: slices.Concat(o.wish.Warnings(), o.wish.FixedAtCreation(o.m.balancer), o.warnings),
	}
	if err == nil {
		s.Repaired = slices.Compact(slices.Sorted(slices.Values(o.repaired)))
	}
	return s
}
