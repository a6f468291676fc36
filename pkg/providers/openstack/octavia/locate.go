package octavia

import (
	"context"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// holding is a load balancer that has, or shall have, something of a Service.
type holding struct {
	lb *plan.LoadBalancer
	// names are those that the Service's things on it have.
	names plan.Names
	role  plan.Role
}

// locate finds the Service's load balancer: the one that the annotation names or, when that is gone or
// not set, the one that was made for the Service. KindConflict when there is one of its name that is not
// known to be its.
func (r *reconciliation) locate(ctx context.Context) error {
	h, err := r.resume(ctx)
	if err == nil && h == nil {
		if lb := r.fromSnapshot(ctx); lb != nil {
			h, err = r.recognize(ctx, lb)
		} else {
			h, err = r.find(ctx)
		}
	}
	if err != nil || h == nil {
		return err
	}
	r.lb = h.lb
	r.work.id, r.work.holding = h.lb.ID, holding{names: h.names, role: h.role}
	return nil
}

// shown reports whether an address that the Service has published is the load balancer's.
func (r *reconciliation) shown(ctx context.Context, lb *plan.LoadBalancer) func(published []string) (bool, error) {
	return func(published []string) (bool, error) {
		if len(published) == 0 || plan.Shows(published, lb) {
			return len(published) > 0, nil
		}
		fips, err := r.attachedFIPs(ctx, lb)
		return slices.ContainsFunc(addressesOf(fips), func(a string) bool { return slices.Contains(published, a) }), err
	}
}

// recognize says what a load balancer is to the Service, by plan's table.
func (r *reconciliation) recognize(ctx context.Context, lb *plan.LoadBalancer) (*holding, error) {
	if r.octavia.IsElsewhere(lb) {
		return nil, cloud.Errorf(cloud.KindConflict, "load balancer %s belongs to another project than the one that cloud.conf logs in to: correct or remove the annotation %s", lb.ID, plan.AnnLoadBalancerID)
	}
	names, whose, err := r.names.Judge(r.ev, lb, r.shown(ctx, lb))
	switch {
	case err != nil:
		return nil, err
	case whose != cloud.Foreign:
		return &holding{lb, names, plan.Owner}, nil
	case lb.Name == r.names.LB:
		return nil, r.names.NotOurs(lb)
	}
	names, err = r.tenantNames(ctx, lb)
	if err == nil {
		err = r.mayShare(ctx, names, lb)
	}
	return &holding{lb, names, plan.Tenant}, err
}

// tenantNames are the names of what the Service has on a load balancer that was not made for
// it: today's, unless it came there under another --cluster-name.
func (r *reconciliation) tenantNames(ctx context.Context, lb *plan.LoadBalancer) (plan.Names, error) {
	before := r.names.FormerTags(lb)
	if len(before) == 0 || slices.Contains(lb.Tags, r.names.LB) {
		return r.names, nil
	}
	listeners, err := r.octavia.Listeners(ctx, lb.ID)
	if err != nil {
		return r.names, err
	}
	var unmarked []string
	for _, tag := range before {
		ours, foreign := false, false
		for _, l := range listeners {
			if slices.Contains(l.Tags, tag) {
				ours = ours || slices.Contains(l.Tags, r.names.OwnerTag)
				foreign = foreign || r.names.IsForeign(l.Tags)
			}
		}
		switch {
		case ours:
			return r.names.Tagged(tag), nil
		case !foreign:
			unmarked = append(unmarked, tag)
		}
	}
	if len(unmarked) != 1 {
		return r.names, nil
	}
	proven, err := r.shown(ctx, lb)(r.ev.Published)
	if proven {
		return r.names.Tagged(unmarked[0]), err
	}
	return r.names, err
}

// mayShare refuses a load balancer on which a Service of the same name is, in another cluster of the
// same name, unless the Service has published an address of the load balancer, as after a takeover.
func (r *reconciliation) mayShare(ctx context.Context, names plan.Names, lb *plan.LoadBalancer) error {
	if !slices.Contains(lb.Tags, names.LB) || slices.Contains(r.ev.Published, lb.VIPAddress) {
		return nil
	}
	tree, err := r.listeners(ctx, lb)
	if err != nil {
		return err
	}
	refusal := names.MayShare(lb, tree.Listeners)
	if refusal == nil {
		return nil
	}
	if proven, err := r.shown(ctx, lb)(r.ev.Published); err != nil || proven {
		return err
	}
	return refusal
}

func (r *reconciliation) find(ctx context.Context) (*holding, error) {
	if r.ev.ID != "" {
		switch lb, err := r.octavia.Get(ctx, r.ev.ID); {
		case err == nil:
			return r.recognize(ctx, lb)
		case !cloud.IsNotFound(err):
			return nil, err
		}
	}
	all, made, err := r.made(ctx)
	if err != nil {
		return nil, err
	}
	// Several were made when a create was carried out although its answer never came, and then made once
	// more: the same one is taken each time, and releasePrevious removes the others.
	if len(made) > 0 && slices.Contains(made[0].lb.Tags, r.names.OwnerTag) {
		r.work.surplus = len(made) > 1
		return made[0], nil
	}
	others, err := r.otherwiseNamed(ctx, len(all) == 0)
	switch {
	case err != nil:
		return nil, err
	case len(others) > 0:
		return others[0], nil
	case len(all) == 0:
		return nil, nil
	case len(made) == 1:
		return made[0], nil
	case len(all) == 1:
		return nil, r.names.NotOurs(&all[0])
	}
	var ids []string
	for _, lb := range all {
		ids = append(ids, lb.ID)
	}
	return nil, cloud.Errorf(cloud.KindConflict, "%d load balancers are named %s: %s: set the annotation %s to the Service's, or delete or rename those that are not in use",
		len(all), r.names.LB, strings.Join(ids, ", "), plan.AnnLoadBalancerID)
}

// made are all load balancers of the Service's name, and those of them that were made for it: which carry
// our cluster's tag or, where none does, are its by evidence.
func (r *reconciliation) made(ctx context.Context) (all []plan.LoadBalancer, made []*holding, err error) {
	if all, err = r.octavia.Named(ctx, r.names.LB); err != nil {
		return nil, nil, err
	}
	for _, lb := range r.names.Ours(all) {
		made = append(made, &holding{&lb, r.names, plan.Owner})
	}
	if len(made) == 0 {
		made, err = r.proven(ctx, all)
	}
	return all, made, err
}

// proven are those of the Service's name that are its by evidence.
func (r *reconciliation) proven(ctx context.Context, all []plan.LoadBalancer) ([]*holding, error) {
	var out []*holding
	for i := range all {
		h, err := r.recognize(ctx, &all[i])
		switch {
		case err == nil && h.role == plan.Owner:
			out = append(out, h)
		case err != nil && cloud.KindOf(err) != cloud.KindConflict:
			return nil, err
		default:
			leaveAlone(ctx, &all[i])
		}
	}
	if i := slices.IndexFunc(out, func(h *holding) bool { return h.lb.ID == r.ev.ID }); i >= 0 {
		out = out[i : i+1] // it cannot have two
	}
	return out, nil
}

func leaveAlone(ctx context.Context, lb *plan.LoadBalancer) {
	klog.FromContext(ctx).Info("Leaving a load balancer alone that is not known to be ours", "loadBalancer", lb.ID, "name", lb.Name, "tags", lb.Tags)
}

// otherwiseNamed are the load balancers that were made for the Service under another name:
// under another --cluster-name or, if nothing has today's name, by its UID, as long ago.
func (r *reconciliation) otherwiseNamed(ctx context.Context, legacy bool) ([]*holding, error) {
	ids, err := r.renamedIDs(ctx)
	if err != nil {
		return nil, err
	}
	var out []*holding
	for _, id := range ids {
		lb, err := r.octavia.Get(ctx, id)
		if cloud.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if names, ok := r.names.MadeFor(lb); ok && slices.Contains(lb.Tags, r.names.OwnerTag) {
			out = append(out, &holding{lb, names, plan.Owner})
		}
	}
	if len(out) > 0 || !legacy || r.names.Legacy == "" || len(r.ev.Published) == 0 {
		return out, nil
	}
	old, err := r.octavia.Named(ctx, r.names.Legacy)
	if err != nil {
		return nil, err
	}
	return r.proven(ctx, old)
}

// held are all load balancers that hold something of the Service, for its deletion.
func (r *reconciliation) held(ctx context.Context) ([]*holding, error) {
	all, out, err := r.made(ctx)
	if err != nil {
		return nil, err
	}
	if len(out) > 1 && !slices.Contains(out[0].lb.Tags, r.names.OwnerTag) { // which one?
		klog.FromContext(ctx).Info("Leaving load balancers alone of which only one can be the Service's", "name", r.names.LB)
		out = nil
	}
	if r.ev.ID != "" && !slices.ContainsFunc(all, func(lb plan.LoadBalancer) bool { return lb.ID == r.ev.ID }) {
		named, err := r.annotated(ctx)
		if err != nil {
			return nil, err
		}
		out = append(named, out...)
	}
	if slices.ContainsFunc(out, func(h *holding) bool { return h.role == plan.Owner }) {
		return out, nil
	}
	others, err := r.otherwiseNamed(ctx, len(all) == 0)
	return append(out, others...), err
}

// annotated is the load balancer that the annotation names, and others that were made for the
// Service under the same other name.
func (r *reconciliation) annotated(ctx context.Context) ([]*holding, error) {
	lb, err := r.octavia.Get(ctx, r.ev.ID)
	if cloud.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := r.recognize(ctx, lb)
	switch {
	case cloud.KindOf(err) == cloud.KindConflict:
		leaveAlone(ctx, lb)
		return nil, nil
	case err != nil:
		return nil, err
	}
	out := []*holding{h}
	if h.role == plan.Tenant || lb.Name == r.names.Legacy {
		return out, nil
	}
	all, err := r.octavia.Named(ctx, lb.Name)
	for _, more := range r.names.Ours(all) {
		if more.ID != lb.ID {
			out = append(out, &holding{&more, h.names, plan.Owner})
		}
	}
	return out, err
}

// renamedIDs are the IDs of the load balancers that carry the cluster's tag and the Service's name under
// another --cluster-name than today's. They are read once a process, when the first Service is not found by
// its annotation or today's name: no further ones are made meanwhile.
func (r *reconciliation) renamedIDs(ctx context.Context) ([]string, error) {
	known, err := r.renamed.Read(r.octavia.Scope(), r.now, processTTL, func() (map[string][]string, error) {
		all, err := r.octavia.Tagged(ctx, r.names.OwnerTag)
		found := map[string][]string{}
		for i := range all {
			lb := &all[i]
			cluster, service, ok := plan.MadeOf(lb)
			if ok && cluster != r.names.Cluster && slices.Contains(lb.Tags, r.names.OwnerTag) && !r.octavia.IsElsewhere(lb) {
				found[service] = append(found[service], lb.ID)
			}
		}
		for _, ids := range found {
			slices.Sort(ids)
		}
		return found, err
	})
	return known[r.names.Service()], err
}
