package octavia

import (
	"context"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/await"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/keylock"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/wire"
)

var (
	_ cloud.LoadBalancers = (*LoadBalancers)(nil)
	_ cloud.Waiting       = (*LoadBalancers)(nil)
)

// LoadBalancers implements cloud.LoadBalancers with Octavia and Neutron's floating IPs.
type LoadBalancers struct {
	c   *api.Client
	cfg *config.Config
	// server is an error unless Nova knows the server of that ID.
	server   func(ctx context.Context, id string) error
	octavia  *wire.Octavia
	subnets  *neutron.Subnets
	floating *neutron.FloatingIPs
	waits    waits
	now      func() time.Time

	// waiter looks at all that Octavia works on, groups are the managed security groups, which gather changes of
	// ports: both by the waits of when they are first used. underway is who waits for what.
	waiter   func() *await.Waiter[*plan.LoadBalancer]
	groups   func() *neutron.SecurityGroups
	underway inventory.Memory[cloud.LoadBalancerKey, work]
	// locks let one operation at a time work on each load balancer, by its ID: Octavia has no
	// conditional updates (Zed ignores If-Match), so that two Services that share a load balancer
	// would lose each other's tags.
	locks keylock.Locks[string]
	// trees and snapshots are what load balancers consist of.
	trees     treeCache
	snapshots inventory.Memory[string, *snapshot]
	// creations are those whose answer was lost, by name, until it is sure that the load balancer
	// would be found by that: no second one is made before.
	creations inventory.Memory[string, time.Time]
	// repairs are what verifications have put right that could not be ended, mostly because Octavia
	// needs longer than an operation waits: the one that ends tells of all. By Service UID.
	repairs inventory.Memory[string, []string]
	// renamed are the load balancers that are named after another cluster name, by scope and Service.
	renamed inventory.Memory[string, map[string][]string]
	// firewalls are the security groups that were seen as they shall be, by Service UID; formerGroups the
	// names of those from when they were managed, by scope; noGroup are Services that have none then.
	firewalls    inventory.Memory[string, firewall]
	formerGroups inventory.Memory[string, map[string]bool]
	noGroup      inventory.Memory[string, bool]
}

// New makes the load balancers of a region. server is an error unless Nova knows the server of that ID.
func New(c *api.Client, cfg *config.Config, server func(ctx context.Context, id string) error) *LoadBalancers {
	l := &LoadBalancers{c: c, cfg: cfg, server: server, octavia: wire.New(c), subnets: neutron.NewSubnets(c), floating: neutron.NewFloatingIPs(c), waits: defaultWaits(), now: time.Now}
	l.waiter = sync.OnceValue(func() *await.Waiter[*plan.LoadBalancer] {
		return await.New((&look{octavia: l.octavia}).poll, await.Pace{First: l.waits.first, Most: l.waits.most, Gap: l.waits.gap, Retry: l.waits.retry})
	})
	l.groups = sync.OnceValue(func() *neutron.SecurityGroups {
		return neutron.NewSecurityGroups(c, joint.Options{Quiet: l.waits.first, Wait: l.waits.brief, Waiters: portWaiters, Retry: l.waits.retry})
	})
	return l
}

// portWaiters is how many operations wait for the change of ports that they share: few of those that
// gather for it, so that all can come.
const portWaiters = 8

// Attach implements cloud.Waiting.
func (l *LoadBalancers) Attach(ctx context.Context, again func(cloud.LoadBalancerRef)) {
	l.waiter().Attach(ctx, again)
	l.groups().Attach(ctx, again)
}

// Ensure implements cloud.LoadBalancers.
func (l *LoadBalancers) Ensure(ctx context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	r, err := l.begin(ctx, spec)
	if err != nil {
		return nil, err
	}
	if spec.Verify {
		r.repaired, _ = l.repairs.Take(spec.UID, l.now())
	}
	if err := r.ensure(ctx); err != nil {
		if len(r.repaired) > 0 {
			l.repairs.Put(spec.UID, r.repaired, l.now(), l.now().Add(workTTL))
		}
		return r.early, err
	}
	return r.status, nil
}

// UpdateMembers implements cloud.LoadBalancers.
func (l *LoadBalancers) UpdateMembers(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	r, err := l.begin(ctx, spec)
	if err != nil {
		return err
	}
	r.service = r.service.WithLaterMembers()
	return r.updateMembers(ctx)
}

// Delete implements cloud.LoadBalancers.
func (l *LoadBalancers) Delete(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	l.repairs.Forget(spec.UID)
	r, err := l.operation(ctx, spec.LoadBalancerRef)
	if err != nil {
		return err
	}
	if err := r.delete(ctx); cloud.IsNotFound(err) {
		// Something went while we were at it. That is no proof that all of it has gone.
		return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: l.waits.retry, Err: err}
	} else if err != nil {
		return err
	}
	l.noGroup.Forget(spec.UID)
	return nil
}
