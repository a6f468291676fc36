package openstack

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/await"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// lbWaits says how long is waited for Octavia, which works asynchronously.
type lbWaits struct {
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

func defaultLBWaits() lbWaits {
	p := await.DefaultPace()
	return lbWaits{first: p.First, most: p.Most, gap: p.Gap, total: 5 * time.Second, brief: time.Second, retry: p.Retry, turn: 20 * time.Second}
}

// Attach implements cloud.Waiting.
func (l *LoadBalancers) Attach(ctx context.Context, again func(cloud.LoadBalancerRef)) {
	l.waiter().Attach(ctx, again)
}

// waiter looks at all load balancers that Octavia works on.
func (l *LoadBalancers) waiter() *await.Waiter[*octaviaLB] {
	l.awaitOnce.Do(func() {
		l.await = await.New((&lbLook{lb: l}).poll, await.Pace{First: l.waits.first, Most: l.waits.most, Gap: l.waits.gap, Retry: l.waits.retry})
	})
	return l.await
}

// lbLook looks at load balancers that Octavia works on.
type lbLook struct {
	lb *LoadBalancers
	// listed are those that the last list had, in scope: that the next one lacks them, and not all,
	// says that they are gone. That a list lacks any other one proves nothing.
	listed map[string]bool
	scope  string
}

// poll returns those that are not pending any more, nil for one that is gone: one by itself, several
// with a list of the project's.
func (p *lbLook) poll(ctx context.Context, ids []string) (map[string]*octaviaLB, error) {
	o, err := p.lb.operation(ctx, cloud.LoadBalancerRef{})
	if err != nil {
		return nil, err
	}
	out := map[string]*octaviaLB{}
	if len(ids) == 1 {
		return out, p.one(ctx, o, ids[0], out)
	}
	all, err := o.project(ctx)
	if err != nil {
		return nil, err
	}
	scope := api.ScopeOf(o.octavia)
	listed := make(map[string]bool, len(all))
	seen := make(map[string]*octaviaLB, len(ids))
	for i := range all {
		listed[all[i].ID] = true
		seen[all[i].ID] = &all[i]
	}
	for _, id := range ids {
		switch lb := seen[id]; {
		case lb != nil && !lb.isPending():
			out[id] = lb
		case lb != nil:
		case p.listed[id] && p.scope == scope && len(all) > 0:
			out[id] = nil
		default:
			if err := p.one(ctx, o, id, out); err != nil {
				return out, err
			}
		}
	}
	p.listed, p.scope = listed, scope
	return out, nil
}

func (p *lbLook) one(ctx context.Context, o *lbOperation, id string, out map[string]*octaviaLB) error {
	lb, err := o.getAlone(ctx, id)
	switch {
	case cloud.IsNotFound(err):
		out[id] = nil
	case err != nil:
		return err
	case !lb.isPending():
		out[id] = lb
	}
	return nil
}

// wait waits for the end of Octavia's work on a load balancer and returns it as it is then, nil when
// it is gone. With KindRetryAfter the Service's next operation begins where this one has stopped.
func (o *lbOperation) wait(ctx context.Context, id string) (*octaviaLB, error) {
	lb, err := o.lb.waiter().Wait(ctx, o.ref, id, o.patience)
	if cloud.KindOf(err) == cloud.KindRetryAfter {
		if id == o.work.id && o.lb.waiter().Tells() { // and not another one that it is about to leave
			o.lb.underway.put(o.ref, o.work, o.lb.now())
		}
		return nil, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: o.lb.waits.retry, Op: "load balancer " + id, Err: err}
	}
	return lb, err
}

// waitActive waits until Octavia has done its work on the load balancer.
func (o *lbOperation) waitActive(ctx context.Context, id string) (*octaviaLB, error) {
	lb, err := o.wait(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case lb == nil:
		return nil, cloud.Errorf(cloud.KindNotFound, "load balancer %s is deleted", id)
	case lb.Status == stateError:
		return nil, errorState(lb)
	}
	return lb, nil
}

// waitIdle waits briefly for work on the load balancer that was under way before us.
func (o *lbOperation) waitIdle(ctx context.Context, id string) (*octaviaLB, error) {
	defer o.hurry()()
	return o.waitActive(ctx, id)
}

// hurry makes waits brief, until the function that it returns is called.
func (o *lbOperation) hurry() (restore func()) {
	before := o.patience
	o.patience = min(o.lb.waits.brief, before)
	return func() { o.patience = before }
}

// waitGone waits briefly until a load balancer that is being deleted is gone.
func (o *lbOperation) waitGone(ctx context.Context, id string) error {
	defer o.hurry()()
	lb, err := o.wait(ctx, id)
	switch {
	case err != nil || lb == nil:
		return err
	case lb.Status == stateError:
		return errorState(lb)
	}
	return o.retryLater("load balancer %s is %s after its deletion", id, lb.Status)
}

// lbWork is what an operation has stopped at because Octavia was not done. A process that knows
// nothing of it finds all of it out again.
type lbWork struct {
	id    string // of the load balancer, "" while there is none
	names lbNames
	owner bool // it was made for the Service
	// surplus says that there are several load balancers of the Service's name.
	surplus bool
	// claimed says that the load balancer had not been the Service's before.
	claimed bool
	// deleting says that the Service has nothing but this load balancer, which goes.
	deleting bool
	at       time.Time
}

// lbUnderway is the work by Service, until its next operation or at most workTTL.
type lbUnderway struct {
	mu    sync.Mutex
	works map[serviceKey]lbWork
}

type serviceKey struct{ cluster, namespace, name, uid string }

// workTTL is longer than the service controller ever waits.
const workTTL = 15 * time.Minute

func keyOf(ref cloud.LoadBalancerRef) serviceKey {
	return serviceKey{ref.Cluster.UID, ref.Namespace, ref.Name, ref.UID}
}

func (u *lbUnderway) put(ref cloud.LoadBalancerRef, w lbWork, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.works == nil {
		u.works = map[serviceKey]lbWork{}
	}
	maps.DeleteFunc(u.works, func(_ serviceKey, old lbWork) bool { return now.Sub(old.at) > workTTL })
	w.at = now
	u.works[keyOf(ref)] = w
}

func (u *lbUnderway) take(ref cloud.LoadBalancerRef) (lbWork, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	w, ok := u.works[keyOf(ref)]
	delete(u.works, keyOf(ref))
	return w, ok
}

// resume waits for what the Service's operation before has waited for in vain. It is nil when there
// is nothing, or nothing any more that this one can go on with.
func (o *lbOperation) resume(ctx context.Context, ref cloud.LoadBalancerRef) (*holding, error) {
	work, ok := o.lb.underway.take(ref)
	if id := ref.Settings.String(annLoadBalancerID, ""); !ok || work.deleting || id != "" && id != work.id {
		return nil, nil
	}
	defer o.hurry()()
	o.work = work
	lb, err := o.wait(ctx, work.id)
	if err != nil {
		return nil, err
	}
	if lb == nil {
		o.work = lbWork{}
		return nil, nil
	}
	return &holding{lb: lb, names: work.names, owner: work.owner}, nil
}

// resumeDeletion is resume for a deletion. It reports whether all that was waited for is gone.
func (o *lbOperation) resumeDeletion(ctx context.Context, ref cloud.LoadBalancerRef) (bool, error) {
	work, ok := o.lb.underway.take(ref)
	if !ok {
		return false, nil
	}
	defer o.hurry()()
	o.work = work
	lb, err := o.wait(ctx, work.id)
	if err != nil || lb != nil || !work.deleting {
		o.work = lbWork{}
		return false, err
	}
	o.lb.trees.forget(work.id)
	o.lb.renamed.forget(work.id)
	return true, nil
}
