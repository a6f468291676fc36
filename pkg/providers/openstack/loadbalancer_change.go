package openstack

import (
	"context"
	"sync"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// known is what the load balancer consists of: as remembered or, where that does not hold
// any more or is not to be trusted, as read.
func (o *lbOperation) known(ctx context.Context, lb *octaviaLB, verify bool) (treeEntry, error) {
	if known, ok := o.lb.trees.get(lb, o.lb.now()); ok && !verify {
		if !known.unproven {
			return known, nil
		}
		status, err := o.status(ctx, lb.ID)
		if err != nil || known.prove(status) {
			return known, err
		}
	}
	return o.read(ctx, lb.ID)
}

func (o *lbOperation) read(ctx context.Context, id string) (treeEntry, error) {
	o.readTree = true
	tree, err := readTree(ctx, o.octavia, id)
	return treeEntry{tree: tree, readAt: o.lb.now()}, err
}

// change makes the changes that lead from what is known to what is wanted, which is what is
// known afterwards.
func (o *lbOperation) change(ctx context.Context, w *lbWishes, lb *octaviaLB, owner bool, known *treeEntry, want *lbTree) (*octaviaLB, error) {
	if err := o.plan(ctx, w, lb, owner, known, want); err != nil {
		return nil, err
	}
	for _, c := range known.todo {
		var err error
		switch c.action {
		case setMembers:
			err = o.setMemberSubnets(ctx, w, lb.VIPSubnetID, c.pool.Members)
		case createListener, updateListener:
			err = o.checkCertificates(ctx, w, c.listener)
		default:
		}
		if err != nil {
			return nil, err
		}
	}
	group, err := o.openGroup(ctx, w, lb, owner, known.tree)
	if err != nil {
		return nil, err
	}
	if lb, err = o.apply(ctx, w.spec.LoadBalancerRef, lb, known); err != nil {
		return nil, err
	}
	known.underway = false
	o.lb.trees.put(lb, *known, o.lb.now())
	return lb, o.closeGroup(ctx, group)
}

// plan sets known.todo to the changes that are left. Those that an operation before had no
// time for are gone on with, unless the Service wants something else by now.
func (o *lbOperation) plan(ctx context.Context, w *lbWishes, lb *octaviaLB, owner bool, known *treeEntry, want *lbTree) error {
	changes, next, err := w.diff(lb, owner, known.tree, want)
	if len(known.todo) > 0 {
		if len(changes) == 0 && err == nil {
			return nil
		}
		if *known, err = o.read(ctx, lb.ID); err != nil {
			return err
		}
		changes, next, err = w.diff(lb, owner, known.tree, want)
	}
	if err != nil {
		return err
	}
	filled, err := o.fill(ctx, known.tree, changes)
	if err != nil {
		return err
	}
	if filled != nil {
		if changes, next, err = w.diff(lb, owner, filled, want); err != nil {
			return err
		}
	}
	if known.fresh || o.newborn {
		changes = firstTouches(lb, next, changes)
	} else if w.spec.Verify {
		for _, c := range changes {
			o.repaired = append(o.repaired, c.String())
		}
	}
	known.todo, known.tree = changes, next
	return nil
}

// diff is diffTree for the Service, or followNodes for a frozen one.
func (w *lbWishes) diff(lb *octaviaLB, owner bool, actual, want *lbTree) ([]lbChange, *lbTree, error) {
	ownership := lbOwnership{names: w.names, owner: owner, ovn: lb.Provider == config.ProviderOVN}
	if w.spec.Frozen {
		changes, next := w.followNodes(actual, ownership)
		return changes, next, nil
	}
	changes, next, err := diffTree(actual, want, ownership)
	if err != nil {
		return nil, nil, &cloud.Error{Kind: cloud.KindOf(err), Op: "load balancer " + lb.ID, Err: err}
	}
	return changes, next, nil
}

// repairs are what verifications have put right that could not be ended, mostly because
// Octavia needs longer than an operation waits: the one that ends tells of all. By Service UID.
type repairs struct{ byUID sync.Map }

func (r *repairs) keep(uid string, texts []string) {
	if len(texts) > 0 {
		r.byUID.Store(uid, texts)
	}
}

func (r *repairs) take(uid string) []string {
	texts, _ := r.byUID.LoadAndDelete(uid)
	out, _ := texts.([]string)
	return out
}
