package octavia

import (
	"context"
	"fmt"
	"net/netip"
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
	defer func() { r.unlock() }()
	return r.run(ctx, // the part of ensure that follows the Nodes
		r.locate, r.lock, r.recognized, r.waitIdle, r.want, r.observe, r.plan, r.complete, r.openFirewall, r.apply, r.closeFirewall)
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

// reconciliation is one call of an interface method. What the Service says is service, what it wants of
// the load balancer that it has desired; neither is changed. What is there is lb and known, replaced when
// it was read or changed.
type reconciliation struct {
	*LoadBalancers
	octavia  *wire.Client
	ref      cloud.LoadBalancerRef
	names    plan.Names // of what is made for the Service today
	ev       plan.Evidence
	subnetOf map[string]netip.Prefix // subnets of members, by ID

	service *plan.Service
	desired *plan.Desired
	lb      *plan.LoadBalancer // nil: absent
	known   known
	work    work // what it is at, with the role; for the operation after it
	last    bool // of a deletion: what it is at is the last that the Service has
	unlock  func()
	report
	firewall *firewall // nil where there is nothing to close
}

// report is what an operation has to tell.
type report struct {
	status   *cloud.LoadBalancerStatus
	early    *cloud.LoadBalancerStatus // to be published although there is an error
	warnings []string                  // found on the way, for the Service's events
	repaired []string                  // what others had changed
	refused  error                     // the answer once all else is done: whoever was served before still is
	oneVIP   string                    // why the load balancer was made with one VIP
	created  bool
	readTree bool   // the load balancer's children were read, not remembered
	address  string // the floating IP by which the Service is reached, "" for none
}

const stateDeleting = "PENDING_DELETE"

// operation begins one on a Service's load balancers.
func (l *LoadBalancers) operation(ctx context.Context, ref cloud.LoadBalancerRef) (*reconciliation, error) {
	octavia, err := l.octavia.Client(ctx)
	if err != nil {
		return nil, err
	}
	return &reconciliation{LoadBalancers: l, octavia: octavia, ref: ref, names: plan.NamesOf(ref), ev: plan.EvidenceOf(ref),
		subnetOf: map[string]netip.Prefix{}, unlock: func() {}}, nil
}

// begin resolves what the Service says, and begins an operation.
func (l *LoadBalancers) begin(ctx context.Context, spec *cloud.LoadBalancerSpec) (*reconciliation, error) {
	service, err := plan.Resolve(spec, l.cfg)
	if err != nil {
		return nil, err
	}
	r, err := l.operation(ctx, spec.LoadBalancerRef)
	if err != nil {
		return nil, err
	}
	r.service, err = r.withMemberCIDR(ctx, service)
	return r, err
}

// run takes the steps in order, up to the first that fails.
func (r *reconciliation) run(ctx context.Context, steps ...func(context.Context) error) error {
	for _, s := range steps {
		if err := s(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ensure is the whole operation that makes the load balancer what the Service wants.
func (r *reconciliation) ensure(ctx context.Context) error {
	defer func() { r.unlock() }()
	return r.run(ctx,
		r.locate, // what the Service has
		r.lock,
		r.settle, // until it takes changes
		r.create, // where there is none
		r.want,   // what the Service wants of it
		r.admit,  // a tenant
		r.observe,
		r.plan,
		r.claim,
		r.announce, // a new address
		r.complete,
		r.openFirewall,
		r.apply,
		r.closeFirewall,
		r.expose,
		r.publish,
		r.releasePrevious, // what the Service used before
	)
}

// leave takes all that the Service has off a load balancer that stays: it wants nothing of it. The tag
// goes last: it is what says that there may still be something to remove.
func (r *reconciliation) leave(ctx context.Context) error {
	return r.run(ctx, r.waitIdle, r.observeAll, r.plan, r.apply, r.unclaim)
}

// waits says how long is waited for Octavia, which works asynchronously.
type waits struct {
	// first, most and gap are the pace at which is looked at what is pending, see await.Pace.
	first, most, gap time.Duration
	// total is how long an operation waits for one change of its own. brief is that for what takes
	// long, as creations do, and for work that it finds under way. Then it returns KindRetryAfter
	// with retry, and the Service comes back when the work has ended.
	total, brief, retry time.Duration
	// turn is how long an operation goes on to make changes, each of which is done in time: a
	// Service with hundreds of ports must not keep others waiting either. Zero is no bound.
	turn time.Duration
}

func defaultWaits() waits {
	p := await.DefaultPace()
	return waits{first: p.First, most: p.Most, gap: p.Gap, total: 5 * time.Second, brief: time.Second, retry: p.Retry, turn: 20 * time.Second}
}

// look looks at load balancers that Octavia works on.
type look struct {
	octavia *wire.Octavia

	// listed are those that the last list had, by scope: that the next one lacks them, and not all,
	// says that they are gone. That a list lacks any other one proves nothing.
	listed inventory.Memory[string, map[string]*plan.LoadBalancer]
}

// poll returns those that are not pending any more, nil for one that is gone: one by itself, several
// with a list of the project's.
func (p *look) poll(ctx context.Context, ids []string) (map[string]*plan.LoadBalancer, error) {
	c, err := p.octavia.Client(ctx)
	if err != nil {
		return nil, err
	}
	var before, seen map[string]*plan.LoadBalancer
	if len(ids) > 1 {
		all, err := c.List(ctx)
		if err != nil {
			return nil, err
		}
		seen = make(map[string]*plan.LoadBalancer, len(all))
		for i := range all {
			seen[all[i].ID] = &all[i]
		}
		before, _ = p.listed.Get(c.Scope(), time.Now())
		p.listed.Put(c.Scope(), seen, time.Now(), time.Now().Add(workTTL))
	}
	out := map[string]*plan.LoadBalancer{}
	for _, id := range ids {
		lb := seen[id]
		if lb == nil && (before[id] == nil || len(seen) == 0) {
			if lb, err = c.GetAlone(ctx, id); err != nil && !cloud.IsNotFound(err) {
				return out, err
			}
		}
		if lb == nil || !lb.IsPending() {
			out[id] = lb
		}
	}
	return out, nil
}

// errorState is of KindFailed: trying again at once is of no use.
func errorState(lb *plan.LoadBalancer) error {
	return cloud.Errorf(cloud.KindFailed, "load balancer %s (%s) is in state ERROR: ask the cloud's operator for the reason; it works again after a failover, or delete it and it is made anew",
		lb.ID, lb.Name)
}

func (r *reconciliation) retryLater(format string, args ...any) error {
	return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: r.waits.retry, Err: fmt.Errorf(format, args...)}
}

// wait waits for the end of Octavia's work on a load balancer and returns it as it is then, nil when
// it is gone. With KindRetryAfter the Service's next operation begins where this one has stopped.
func (r *reconciliation) wait(ctx context.Context, id string, patience time.Duration) (*plan.LoadBalancer, error) {
	lb, err := r.waiter().Wait(ctx, r.ref, id, min(patience, r.waits.total))
	if cloud.KindOf(err) == cloud.KindRetryAfter {
		if id == r.work.id && r.waiter().Tells() { // and not another one that it is about to leave
			r.keepWork()
		}
		return nil, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: r.waits.retry, Op: "load balancer " + id, Err: err}
	}
	return lb, err
}

// keepWork has the Service's next operation go on with this one's work.
func (r *reconciliation) keepWork() {
	r.underway.Put(r.ref.Key(), r.work, r.now(), r.now().Add(workTTL))
}

// waitActive waits until Octavia has done its work on the load balancer.
func (r *reconciliation) waitActive(ctx context.Context, id string, patience time.Duration) (*plan.LoadBalancer, error) {
	lb, err := r.wait(ctx, id, patience)
	switch {
	case err != nil:
		return nil, err
	case lb == nil:
		return nil, cloud.Errorf(cloud.KindNotFound, "load balancer %s is deleted", id)
	case lb.Status == plan.StateError:
		return nil, errorState(lb)
	}
	return lb, nil
}

// waitIdle waits briefly for work on the load balancer that was under way before us.
func (r *reconciliation) waitIdle(ctx context.Context) error {
	if !r.lb.IsPending() {
		return nil
	}
	lb, err := r.waitActive(ctx, r.lb.ID, r.waits.brief)
	if err == nil {
		r.lb = lb
	}
	return err
}

// waitGone waits briefly until a load balancer that is being deleted is gone.
func (r *reconciliation) waitGone(ctx context.Context, id string) error {
	r.work.deleting = r.last
	lb, err := r.wait(ctx, id, r.waits.brief)
	switch {
	case err != nil || lb == nil:
		return err
	case lb.Status == plan.StateError:
		return errorState(lb)
	}
	return r.retryLater("load balancer %s is %s after its deletion", id, lb.Status)
}

// work is what an operation has stopped at because Octavia was not done. A process that knows
// nothing of it finds all of it out again.
type work struct {
	holding
	id string // of the load balancer, "" while there is none
	// surplus says that there are several load balancers of the Service's name.
	surplus bool
	// claimed says that the load balancer had not been the Service's before.
	claimed bool
	// deleting says that the Service has nothing but this load balancer, which goes.
	deleting bool
}

// workTTL is longer than the service controller ever waits.
const workTTL = 15 * time.Minute

// resume waits for what the Service's operation before has waited for in vain. It is nil when there
// is nothing, or nothing any more that this one can go on with.
func (r *reconciliation) resume(ctx context.Context) (*holding, error) {
	before, ok := r.underway.Take(r.ref.Key(), r.now())
	if id := r.service.LoadBalancerID; !ok || before.deleting || id != "" && id != before.id {
		return nil, nil
	}
	r.work = before
	lb, err := r.wait(ctx, before.id, r.waits.brief)
	if err != nil {
		return nil, err
	}
	if lb == nil {
		r.work = work{}
		return nil, nil
	}
	before.lb = lb
	return &before.holding, nil
}

// resumeDeletion is resume for a deletion. It reports whether all that was waited for is gone.
func (r *reconciliation) resumeDeletion(ctx context.Context) (bool, error) {
	before, ok := r.underway.Take(r.ref.Key(), r.now())
	if !ok {
		return false, nil
	}
	r.work = before
	lb, err := r.wait(ctx, before.id, r.waits.brief)
	if err != nil || lb != nil || !before.deleting {
		r.work = work{}
		return false, err
	}
	r.trees.Forget(before.id)
	return true, nil
}
