package openstack

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

const (
	// snapshotAge is how long a snapshot is used: as long as a round of ensures takes.
	snapshotAge = 30 * time.Second
	// timestampStep is what Octavia's timestamps, which have whole seconds, may hide.
	timestampStep = 2 * time.Second
)

// lbSnapshots holds what was read of all load balancers at once. A process that has just
// started knows none of them: reading each would cost 2 calls and more for each pool, a
// snapshot costs 4 for all of them and one more for each.
type lbSnapshots struct {
	mu      sync.Mutex
	current *lbSnapshot
	reading singleflight.Group
}

// lbSnapshot is all load balancers of a project at one time, with their children but for members.
type lbSnapshot struct {
	scope     string
	at        time.Time
	lbs       map[string]octaviaLB         // by ID
	listeners map[string][]octaviaListener // by load balancer ID
	pools     map[string][]octaviaPool     // by load balancer ID
	monitors  map[string]octaviaMonitor    // by ID
}

// fromSnapshot returns the load balancer that the Service's annotation names if nothing is
// remembered of it and a snapshot tells what it is, which is then remembered; otherwise nil.
//
// The load balancer and its children's attributes are as they were at most snapshotAge ago.
// That nothing was added or removed since, and the members, is read from its status tree. A
// change of an attribute in between is found the next time: its updated_at is another one.
func (o *lbOperation) fromSnapshot(ctx context.Context, w *lbWishes) *octaviaLB {
	o.lb.snapshots.expire(o.lb.now())
	id := w.loadBalancerID
	if id == "" || w.spec.Verify || o.lb.trees.has(id, o.lb.now()) {
		return nil
	}
	lb, entry, err := o.snapshotOf(ctx, id)
	if err != nil {
		klog.FromContext(ctx).V(4).Info("No snapshot of the load balancer, reading it by itself", "loadBalancer", id, "reason", err.Error())
		return nil
	}
	if lb == nil {
		return nil
	}
	o.readTree = true
	o.lb.trees.put(lb, *entry, o.lb.now())
	return lb
}

// snapshotOf is what a snapshot and the status tree tell of a load balancer, nil when they do
// not agree on it.
func (o *lbOperation) snapshotOf(ctx context.Context, id string) (*octaviaLB, *treeEntry, error) {
	snap, err := o.snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	lb, listeners, pools, ok := o.lb.snapshots.find(snap, id)
	if !ok || lb.Status != stateActive || lb.isRecent(snap.at) {
		return nil, nil, nil
	}
	status, err := o.status(ctx, id)
	if err != nil || status.Status != stateActive {
		return nil, nil, err
	}
	entry := &treeEntry{tree: &lbTree{}, readAt: snap.at}
	byID := map[string]*lbPool{}
	for _, p := range pools {
		node := p.node()
		if p.MonitorID != "" {
			m, ok := snap.monitors[p.MonitorID]
			if !ok {
				return nil, nil, nil
			}
			node.Monitor = m.node()
		}
		if seen := status.pool(p.ID); seen != nil && (node.Monitor == nil || node.Monitor.Type != monitorHTTP) {
			node.Members, node.Thin = seen.members(), true
		} else if node.Members, err = readMembers(ctx, o.octavia, p); err != nil { // it is unused, or its members' monitor ports matter
			return nil, nil, err
		}
		byID[p.ID] = node
		entry.tree.Pools = append(entry.tree.Pools, node)
	}
	for _, l := range listeners {
		entry.tree.Listeners = append(entry.tree.Listeners, l.node(byID))
	}
	if !entry.prove(status) {
		return nil, nil, nil
	}
	return &lb, entry, nil
}

// isRecent reports whether a load balancer may have changed twice in the second before at.
func (lb *octaviaLB) isRecent(at time.Time) bool {
	updated, err := time.Parse("2006-01-02T15:04:05", lb.UpdatedAt)
	return err != nil || at.Sub(updated).Abs() < timestampStep
}

// snapshot returns one that is not too old; operations that need one at the same time share it.
func (o *lbOperation) snapshot(ctx context.Context) (*lbSnapshot, error) {
	s, scope := &o.lb.snapshots, api.ScopeOf(o.octavia)
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	if current != nil && current.scope == scope && o.lb.now().Sub(current.at) <= snapshotAge {
		return current, nil
	}
	v, err, _ := s.reading.Do(scope, func() (any, error) {
		snap, err := o.readSnapshot(ctx)
		if err != nil {
			return nil, err
		}
		snap.scope = scope
		s.mu.Lock()
		defer s.mu.Unlock()
		s.current = snap
		return snap, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*lbSnapshot), nil
}

func (o *lbOperation) readSnapshot(ctx context.Context) (*lbSnapshot, error) {
	snap := &lbSnapshot{
		at: o.lb.now(), lbs: map[string]octaviaLB{}, listeners: map[string][]octaviaListener{},
		pools: map[string][]octaviaPool{}, monitors: map[string]octaviaMonitor{},
	}
	query := url.Values{}
	if project := api.ProjectOf(o.octavia); project != "" { // an administrator sees those of others as well
		query.Set("project_id", project)
	}
	lbs, err := o.project(ctx)
	if err != nil {
		return nil, err
	}
	for _, lb := range lbs {
		snap.lbs[lb.ID] = lb
	}
	listeners, err := api.ListAll[octaviaListener](ctx, o.octavia, "lbaas/listeners", query, "listeners")
	if err != nil {
		return nil, api.WrapError("list listeners", err)
	}
	for _, l := range listeners {
		for _, lb := range l.LoadBalancers {
			snap.listeners[lb.ID] = append(snap.listeners[lb.ID], l)
		}
	}
	pools, err := api.ListAll[octaviaPool](ctx, o.octavia, "lbaas/pools", query, "pools")
	if err != nil {
		return nil, api.WrapError("list pools", err)
	}
	for _, p := range pools {
		for _, lb := range p.LoadBalancers {
			snap.pools[lb.ID] = append(snap.pools[lb.ID], p)
		}
	}
	if !slices.ContainsFunc(pools, func(p octaviaPool) bool { return p.MonitorID != "" }) {
		return snap, nil
	}
	monitors, err := api.ListAll[octaviaMonitor](ctx, o.octavia, "lbaas/healthmonitors", query, "healthmonitors")
	if err != nil {
		return nil, api.WrapError("list health monitors", err)
	}
	for _, m := range monitors {
		snap.monitors[m.ID] = m
	}
	return snap, nil
}

// find returns what a snapshot holds of a load balancer.
func (s *lbSnapshots) find(snap *lbSnapshot, id string) (octaviaLB, []octaviaListener, []octaviaPool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lb, ok := snap.lbs[id]
	return lb, snap.listeners[id], snap.pools[id], ok
}

// expire drops a snapshot that is too old to be used.
func (s *lbSnapshots) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && now.Sub(s.current.at) > snapshotAge {
		s.current = nil
	}
}

// forget takes out a load balancer that we change.
func (s *lbSnapshots) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		delete(s.current.lbs, id)
	}
}
