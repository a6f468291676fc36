package octavia

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/wire"
)

// treeTTL bounds how long a tree is believed: two changes within the second that Octavia's
// timestamps can tell apart would otherwise hide one of them for ever.
const treeTTL = 30 * time.Minute

// processTTL is how long is believed what is read once a process, as nobody makes more of it meanwhile.
const processTTL = 24 * time.Hour

// treePhase is how far what is remembered of a load balancer is true.
type treePhase int

const (
	// current: it was read, or all changes are made. It holds as long as Octavia's updated_at is the same.
	current treePhase = iota
	// accepted: Octavia has begun to make the load balancer. The tree is what it answered, and unproven.
	accepted
	// made: that was proven, but the load balancer's first operation has not ended.
	made
	// told: its address was told; what is left only tidies up.
	told
	// applying: Octavia has accepted a change, so that it is not known what updated_at becomes.
	applying
)

// isNew reports whether we have made the load balancer and not yet ended that.
func (p treePhase) isNew() bool { return p == accepted || p == made || p == told }

// known is what a load balancer consists of. Its tree must not be changed once it is remembered.
type known struct {
	phase     treePhase
	updatedAt string
	readAt    time.Time
	// tree is what the load balancer consists of once todo is done.
	tree *plan.Tree
	// todo are changes that Octavia had no time for yet, in order.
	todo []plan.Change
	// floating is the address that a new one's VIP was given while Octavia made it, "" for none.
	floating string
	// internal is the name of the Service for which the VIP was seen without a floating IP.
	internal string
}

// treeCache remembers what load balancers consist of, by their ID. An entry holds as long as Octavia
// says that the load balancer has not been updated since, whoever did it; so the cloud stays the
// source of truth, and an unchanged load balancer costs no reading of its children.
type treeCache struct {
	inventory.Memory[string, known]
}

// of returns what is known of lb, if it is known as it is now.
func (c *treeCache) of(lb *plan.LoadBalancer, now time.Time) (known, bool) {
	k, ok := c.Get(lb.ID, now)
	same := k.phase != current || lb.UpdatedAt != "" && k.updatedAt == lb.UpdatedAt
	if !ok || lb.Status != plan.StateActive || !same {
		return known{}, false
	}
	return k, true
}

// keep remembers k as the state of lb.
func (c *treeCache) keep(lb *plan.LoadBalancer, k known, now time.Time) {
	k.updatedAt = lb.UpdatedAt
	c.Put(lb.ID, k, now, k.readAt.Add(treeTTL))
}

// listeners is the tree of a load balancer as it is remembered, if it has all of these children, or with
// nothing but its listeners, as they are read.
func (r *reconciliation) listeners(ctx context.Context, lb *plan.LoadBalancer, children ...plan.Ref) (*plan.Tree, error) {
	if k, ok := r.trees.of(lb, r.now()); ok && k.tree.HasAll(children...) {
		return k.tree, nil
	}
	all, err := r.octavia.Listeners(ctx, lb.ID)
	if err != nil {
		return nil, err
	}
	return wire.TreeOf(all, nil, nil)
}

const (
	// snapshotAge is how long a snapshot is used: as long as a round of ensures takes.
	snapshotAge = 30 * time.Second
	// timestampStep is what Octavia's timestamps, which have whole seconds, may hide.
	timestampStep = 2 * time.Second
)

// snapshot is all load balancers of a project at one time, with their children but for members. A process
// that has just started knows none of them: reading each would cost 2 calls and more for each pool, a
// snapshot costs 4 for all of them and one more for each.
type snapshot struct {
	at        time.Time
	changed   sync.Map                     // IDs of load balancers that we have changed since
	lbs       map[string]plan.LoadBalancer // by ID
	listeners map[string][]wire.Listener   // by load balancer ID
	pools     map[string][]wire.Pool       // by load balancer ID
	monitors  map[string]plan.Monitor      // by ID
}

// fromSnapshot returns the load balancer that the Service's annotation names if nothing is
// remembered of it and a snapshot tells what it is, which is then remembered; otherwise nil.
//
// The load balancer and its children's attributes are as they were at most snapshotAge ago.
// That nothing was added or removed since, and the members, is read from its status tree. A
// change of an attribute in between is found the next time: its updated_at is another one.
func (r *reconciliation) fromSnapshot(ctx context.Context) *plan.LoadBalancer {
	_, _ = r.snapshots.Get(r.octavia.Scope(), r.now()) // one that is too old goes
	id := r.service.LoadBalancerID
	if _, ok := r.trees.Get(id, r.now()); id == "" || r.service.Spec.Verify || ok {
		return nil
	}
	lb, k, err := r.snapshotOf(ctx, id)
	if err != nil {
		klog.FromContext(ctx).V(4).Info("No snapshot of the load balancer, reading it by itself", "loadBalancer", id, "reason", err.Error())
		return nil
	}
	if lb == nil {
		return nil
	}
	r.readTree = true
	r.trees.keep(lb, *k, r.now())
	return lb
}

// snapshotOf is what a snapshot and the status tree tell of a load balancer, nil when they do
// not agree on it.
func (r *reconciliation) snapshotOf(ctx context.Context, id string) (*plan.LoadBalancer, *known, error) {
	snap, err := r.snapshots.Read(r.octavia.Scope(), r.now, snapshotAge, func() (*snapshot, error) { return r.readSnapshot(ctx) })
	if err != nil {
		return nil, nil, err
	}
	lb, ok := snap.lbs[id]
	if _, changed := snap.changed.Load(id); !ok || changed || lb.Status != plan.StateActive || isRecent(&lb, snap.at) {
		return nil, nil, nil
	}
	status, err := r.octavia.Status(ctx, id)
	if err != nil || status.Status != plan.StateActive {
		return nil, nil, err
	}
	differs := errors.New("the snapshot lacks a monitor")
	tree, err := wire.TreeOf(snap.listeners[id], snap.pools[id], func(node *plan.Pool, p wire.Pool) (err error) {
		if p.MonitorID != "" {
			m, ok := snap.monitors[p.MonitorID]
			if !ok {
				return differs
			}
			node.Monitor = &m
		}
		if seen := status.Pool(p.ID); seen != nil && (node.Monitor == nil || node.Monitor.Type != plan.MonitorHTTP) {
			node.Members, node.Thin = seen.Nodes(), true
			return nil
		}
		node.Members, err = r.octavia.MembersOf(ctx, p) // it is unused, or its members' monitor ports matter
		return err
	})
	if errors.Is(err, differs) || err == nil && !status.Proves(tree) {
		return nil, nil, nil
	}
	return &lb, &known{tree: tree, readAt: snap.at}, err
}

// isRecent reports whether a load balancer may have changed twice in the second before at.
func isRecent(lb *plan.LoadBalancer, at time.Time) bool {
	updated, err := time.Parse("2006-01-02T15:04:05", lb.UpdatedAt)
	return err != nil || at.Sub(updated).Abs() < timestampStep
}

func (r *reconciliation) readSnapshot(ctx context.Context) (*snapshot, error) {
	snap := &snapshot{
		at: r.now(), lbs: map[string]plan.LoadBalancer{}, listeners: map[string][]wire.Listener{},
		pools: map[string][]wire.Pool{}, monitors: map[string]plan.Monitor{},
	}
	lbs, err := r.octavia.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, lb := range lbs {
		snap.lbs[lb.ID] = lb
	}
	listeners, err := wire.Of[wire.Listener](ctx, r.octavia, "listeners")
	if err != nil {
		return nil, err
	}
	for _, l := range listeners {
		for _, lb := range l.LoadBalancers {
			snap.listeners[lb.ID] = append(snap.listeners[lb.ID], l)
		}
	}
	pools, err := wire.Of[wire.Pool](ctx, r.octavia, "pools")
	if err != nil {
		return nil, err
	}
	for _, p := range pools {
		for _, lb := range p.LoadBalancers {
			snap.pools[lb.ID] = append(snap.pools[lb.ID], p)
		}
	}
	if !slices.ContainsFunc(pools, func(p wire.Pool) bool { return p.MonitorID != "" }) {
		return snap, nil
	}
	monitors, err := wire.Of[plan.Monitor](ctx, r.octavia, "healthmonitors")
	for _, m := range monitors {
		snap.monitors[m.ID] = m
	}
	return snap, err
}

// leaveSnapshot takes out a load balancer that we change.
func (r *reconciliation) leaveSnapshot(id string) {
	if snap, ok := r.snapshots.Get(r.octavia.Scope(), r.now()); ok {
		snap.changed.Store(id, true)
	}
}
