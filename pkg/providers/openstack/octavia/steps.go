package octavia

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// lock waits until nobody else works on the load balancer.
func (r *reconciliation) lock(ctx context.Context) error {
	if r.lb == nil {
		return nil
	}
	done, waited, err := r.locks.Lock(ctx, r.lb.ID)
	if err != nil {
		return fmt.Errorf("load balancer %s: wait for the other Service's change to end: %w", r.lb.ID, err)
	}
	r.unlock = func() {
		done()
		r.unlock = func() {}
	}
	if waited {
		r.lb, err = r.octavia.Get(ctx, r.lb.ID)
	}
	return err
}

// settle brings a load balancer into a state in which it takes changes: it waits for work
// that is under way, and gives up one that failed before it ever served anybody.
func (r *reconciliation) settle(ctx context.Context) error {
	switch lb := r.lb; {
	case lb == nil:
	case lb.Status == stateDeleting:
		if err := r.waitGone(ctx, lb.ID); err != nil {
			return err
		}
		if r.work.role == plan.Tenant {
			return cloud.Errorf(cloud.KindInvalid, "annotation %s: load balancer %s was deleted; remove the annotation", plan.AnnLoadBalancerID, lb.ID)
		}
		r.lb = nil
	case lb.IsPending():
		err := r.waitIdle(ctx)
		if err == nil || cloud.KindOf(err) == cloud.KindRetryAfter {
			return err
		}
		if r.lb, err = r.octavia.Get(ctx, lb.ID); err != nil {
			return err
		}
		return r.settle(ctx)
	case lb.Status == plan.StateError:
		return r.giveUp(ctx)
	}
	return nil
}

// giveUp deletes a load balancer whose creation failed.
func (r *reconciliation) giveUp(ctx context.Context) error {
	names := r.work.names
	neverServed := r.work.role == plan.Owner && slices.Contains(r.lb.Tags, names.OwnerTag) && len(r.service.Published()) == 0 && len(r.service.Spec.CurrentIngress) == 0
	if !neverServed || len(names.OtherServices(r.lb.Tags)) > 0 {
		return errorState(r.lb)
	}
	klog.FromContext(ctx).V(2).Info("Deleting a load balancer whose creation failed", "loadBalancer", r.lb.ID)
	// Its floating IP was made with it and goes with it. One of a certain address may have been there before,
	// and the next one gets it.
	if _, err := r.removeFIPs(ctx, r.service.FloatingIP.Address.IsValid()); err != nil {
		return err
	}
	err := r.deleteLB(ctx, true)
	r.lb = nil
	return err
}

// recognized refuses to change the members of a load balancer that is not, or not yet, the Service's.
func (r *reconciliation) recognized(context.Context) error {
	if r.lb == nil {
		return cloud.Errorf(cloud.KindNotFound, "update members: load balancer %s does not exist", r.names.LB)
	}
	if !r.service.Knows(r.lb, r.work.names, r.work.role) {
		return cloud.Errorf(cloud.KindConflict, "update members: load balancer %s is not the Service's yet", r.lb.ID)
	}
	return nil
}

// want resolves what the Service wants of the load balancer.
func (r *reconciliation) want(context.Context) (err error) {
	r.desired, err = r.service.On(r.lb, r.work.names, r.oneVIP)
	return err
}

// admit finds out how a tenant is reached. One that cannot be, as it wants, may not join.
func (r *reconciliation) admit(ctx context.Context) error {
	if r.work.role == plan.Owner {
		return nil
	}
	fips, err := r.attachedFIPs(ctx, r.lb)
	if err != nil {
		return err
	}
	exposure, err := r.desired.SharedExposure(r.lb, addressesOf(fips))
	r.warn(exposure.Warning)
	r.address, r.refused = exposure.FloatingIP, exposure.Refused
	return err
}

// warn notes a warning, if there is one.
func (r *reconciliation) warn(text string) {
	if text != "" {
		r.warnings = append(r.warnings, text)
	}
}

// observe finds out what the load balancer consists of: as remembered or, where that does not hold
// any more or is not to be trusted, as read.
func (r *reconciliation) observe(ctx context.Context) error {
	if r.created {
		return nil // known by its creation
	}
	k, ok := r.trees.of(r.lb, r.now())
	if !ok || r.service.Spec.Verify {
		return r.read(ctx)
	}
	if k.phase == accepted {
		status, err := r.octavia.Status(ctx, r.lb.ID)
		if err != nil {
			return err
		}
		if !status.Proves(k.tree) {
			return r.read(ctx)
		}
		k.phase = made
	}
	r.known = k
	return nil
}

func (r *reconciliation) read(ctx context.Context) error {
	tree, err := r.octavia.Tree(ctx, r.lb.ID)
	r.known, r.readTree = known{tree: tree, readAt: r.now()}, true
	return err
}

// observeAll reads the load balancer's children, all of them: what lists lack would stay behind.
func (r *reconciliation) observeAll(ctx context.Context) error {
	r.forgetReads(r.lb.ID)
	if err := r.read(ctx); err != nil {
		return err
	}
	if !r.known.tree.HasAll(slices.Concat(r.lb.Listeners, r.lb.Pools)...) {
		return r.retryLater("the lists of load balancer %s's listeners and pools lack some that it has", r.lb.ID)
	}
	return nil
}

// plan sets known.todo to the changes that are left. Those that an operation before had no
// time for are gone on with, unless the Service wants something else by now.
func (r *reconciliation) plan(ctx context.Context) error {
	changes, next, err := r.diff()
	if len(r.known.todo) > 0 {
		if len(changes) == 0 && err == nil {
			return nil
		}
		if err = r.read(ctx); err != nil {
			return err
		}
		changes, next, err = r.diff()
	}
	if err != nil {
		return err
	}
	if filled, err := r.fill(ctx, changes); err != nil {
		return err
	} else if filled {
		if changes, next, err = r.diff(); err != nil {
			return err
		}
	}
	if r.service != nil && r.service.Spec.Verify && !r.isNewborn() {
		for _, c := range changes {
			r.repaired = append(r.repaired, c.String())
		}
	}
	r.known.todo, r.known.tree = changes, next
	return nil
}

func (r *reconciliation) diff() ([]plan.Change, *plan.Tree, error) {
	return plan.Plan(plan.Observed{LoadBalancer: r.lb, Tree: r.known.tree, Newborn: r.isNewborn()}, r.desired, r.work.role)
}

// isNewborn reports whether the load balancer may not have served yet.
func (r *reconciliation) isNewborn() bool {
	return r.known.phase.isNew() || r.service != nil && r.desired.IsNewborn(r.lb)
}

// fill reads the members of the pools that changes set and of which only addresses are known:
// Octavia resets what a list of members does not say.
func (r *reconciliation) fill(ctx context.Context, changes []plan.Change) (filled bool, err error) {
	tree := r.known.tree
	for _, c := range changes {
		if c.Action != plan.SetMembers || !c.Pool.Thin {
			continue
		}
		if !filled {
			filled, tree = true, tree.Clone()
		}
		for _, p := range tree.Pools {
			if p.ID != c.Pool.ID {
				continue
			}
			if p.Members, err = r.octavia.Members(ctx, p.ID); err != nil {
				return false, err
			}
			p.Thin = false
		}
	}
	r.known.tree = tree
	return filled, nil
}

// announce tells the address of a load balancer that Octavia has just made, once: the touches that
// follow would only have it wait behind other Services' creations. It is without annotations, so that a
// process which knows nothing of it sees that the load balancer is not done (isNewborn). Nothing is told
// early where there is nobody who comes again for the rest.
func (r *reconciliation) announce(context.Context) error {
	if !r.waiter().Tells() || r.known.phase != made || len(r.known.todo) == 0 || len(r.service.Published()) > 0 ||
		r.refused != nil || r.desired.HasFIP() && r.known.floating == "" {
		return nil //nolint:nilerr // publish tells what is refused
	}
	r.known.phase = told
	r.remember()
	r.keepWork()
	r.early = r.statusAt(r.known.floating)
	r.early.Annotations = nil
	return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: 100 * time.Millisecond, Progress: true, // there is nothing to wait for
		Err: fmt.Errorf("load balancer %s has its address, what is left to be done on it comes next", r.lb.ID)}
}

// complete completes the changes by what only the cloud knows, and refuses what it would refuse.
func (r *reconciliation) complete(ctx context.Context) (err error) {
	for _, c := range r.known.todo {
		switch c.Action {
		case plan.SetMembers:
			err = r.setMemberSubnets(ctx, r.lb.VIPSubnetID, c.Pool.Members)
		case plan.CreateListener, plan.UpdateListener:
			err = r.checkCertificate(ctx, c.Listener.TLSRef)
		default:
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// claim marks the load balancer as the Service's: as the cluster's with the owner's tag
// (once, for one that was made before there were such tags), or as used by the Service. A
// load balancer on which there is no room for the Service stays as it is: the tag would keep
// its owner from deleting it.
func (r *reconciliation) claim(ctx context.Context) error {
	names, role := r.work.names, r.work.role
	tags, err := r.desired.Claim(r.lb, role)
	if err != nil || len(tags) == len(r.lb.Tags) {
		return err
	}
	r.work.claimed = !slices.Contains(r.lb.Tags, names.LB)
	return r.retag(ctx, func(tags []string) []string { return names.Mark(tags, role) })
}

// unclaim takes the Service's tag off the load balancer.
func (r *reconciliation) unclaim(ctx context.Context) error {
	own := r.work.names.LB
	if !slices.Contains(r.lb.Tags, own) {
		return nil
	}
	return r.retag(ctx, func(tags []string) []string {
		return slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return t == own })
	})
}

// retag changes the load balancer's tags. They can only be written as a whole, so they are
// read just before, with the load balancer locked, and compared afterwards.
func (r *reconciliation) retag(ctx context.Context, change func(tags []string) []string) error {
	id := r.lb.ID
	now, err := r.octavia.Get(ctx, id)
	if err != nil {
		return err
	}
	r.lb = now
	tags := change(now.Tags)
	if sameTags(tags, now.Tags) {
		return nil
	}
	klog.FromContext(ctx).V(2).Info("Tagging load balancer", "loadBalancer", id, "tags", tags)
	r.leaveSnapshot(id)
	r.waiter().Forget(r.ref, id)
	if err = r.pendingOr(ctx, r.octavia.Tag(ctx, id, tags)); err != nil {
		return err
	}
	if r.lb, err = r.waitActive(ctx, id, r.waits.total); err != nil {
		return err
	}
	if !sameTags(r.lb.Tags, change(r.lb.Tags)) {
		return r.retryLater("load balancer %s was tagged by somebody else at the same time", id)
	}
	return nil
}

func sameTags(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// apply makes the changes that are left, one API call each, and waits after each until Octavia
// takes the next. When one takes too long, or all of them do, it returns KindRetryAfter; what is left
// then is remembered and gone on with.
func (r *reconciliation) apply(ctx context.Context) error {
	began, id := r.now(), r.lb.ID
	for progress := false; len(r.known.todo) > 0; progress = true {
		if turn := r.waits.turn; progress && turn > 0 && r.now().Sub(began) >= turn {
			r.remember()
			return withProgress(&cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: time.Second,
				Err: fmt.Errorf("%d changes of load balancer %s are left, with which it goes on after others' turn", len(r.known.todo), id)}, true)
		}
		c := r.known.todo[0]
		klog.FromContext(ctx).V(2).Info("Changing load balancer", "loadBalancer", id, "service", klog.KRef(r.ref.Namespace, r.ref.Name), "change", c.String())
		r.forgetReads(id)
		if err := r.pendingOr(ctx, r.octavia.Change(ctx, id, c)); err != nil {
			return withProgress(err, progress)
		}
		r.known.todo = r.known.todo[1:]
		lb, err := r.waitActive(ctx, id, r.waits.total)
		if cloud.KindOf(err) == cloud.KindRetryAfter {
			if !r.known.phase.isNew() {
				r.known.phase = applying
			}
			r.remember()
		}
		if err != nil {
			return withProgress(err, true)
		}
		r.lb = lb
	}
	if r.known.phase == applying {
		r.known.phase = current
	}
	if r.service != nil { // of a Service that leaves nothing is remembered
		r.remember()
	}
	return nil
}

// remember keeps what is known of the load balancer.
func (r *reconciliation) remember() { r.trees.keep(r.lb, r.known, r.now()) }

// withProgress notes in a KindRetryAfter that something was changed.
func withProgress(err error, made bool) error {
	if !made || cloud.KindOf(err) != cloud.KindRetryAfter {
		return err
	}
	return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: cloud.RetryAfter(err), Progress: true, Err: err}
}

// pendingOr returns KindRetryAfter when Octavia is working on the load balancer, so that it
// refused a change, and err otherwise.
func (r *reconciliation) pendingOr(ctx context.Context, err error) error {
	if !cloud.IsStale(err) {
		return err
	}
	if lb, getErr := r.octavia.Get(ctx, r.lb.ID); getErr == nil && lb.IsPending() {
		return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: r.waits.retry, Err: err}
	}
	return err
}

// forgetReads forgets what was read of a load balancer that is about to be changed.
func (r *reconciliation) forgetReads(id string) {
	r.trees.Forget(id)
	r.leaveSnapshot(id)
	r.waiter().Forget(r.ref, id)
}

// publish is the Service's status, unless it is refused: all the rest is done then.
func (r *reconciliation) publish(context.Context) error {
	if r.refused != nil {
		return r.refused
	}
	r.status = r.statusAt(r.address)
	slices.Sort(r.repaired)
	r.status.Repaired = slices.Compact(r.repaired)
	return nil
}

// statusAt is the status of the load balancer with a floating IP.
func (r *reconciliation) statusAt(floating string) *cloud.LoadBalancerStatus {
	status := r.desired.Status(r.lb, floating)
	var fixed []string
	if !r.created {
		fixed = r.service.FixedAtCreation(r.lb)
	}
	status.Warnings = slices.Concat(r.desired.Warnings, fixed, r.warnings)
	return status
}
