package openstack

import (
	"context"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
)

// Whose a load balancer is. The first row that applies decides; "our name" is the one that the
// Service and today's --cluster-name make, "a name of ours" one that the Service and any
// cluster name make.
//
//	| load balancer                                          | is                              |
//	|--------------------------------------------------------|---------------------------------|
//	| another project's, as an administrator sees them       | refused                         |
//	| a name of ours, our cluster's tag                      | the Service's                   |
//	| our name, another cluster's tag                        | refused                         |
//	| our name, no cluster's tag, evidence                   | the Service's; gets the tag     |
//	| our name, no cluster's tag, no evidence                | refused                         |
//	| named a<UID of the Service>, no other cluster's tag    | the Service's; gets the tag     |
//	| a name of ours, no cluster's tag, both evidences, of   | the Service's; gets the tag     |
//	| them the address in the status, no tag of the Service  |                                 |
//	| under another name                                     |                                 |
//	| any other with the Service's tag and listeners that    | refused                         |
//	| have it, none of them with our cluster's, and whose    |                                 |
//	| address the Service has not published                  |                                 |
//	| any other that the annotation load-balancer-id names   | shared                          |
//
// Evidence is that the annotation has its ID, or that the Service has published the address of
// its VIP or floating IP: others' controllers leave both. What we make carries the cluster's
// tag from the first moment on. A name alone is no evidence: clusters of one name in one
// project make the same.
//
// Everything keeps the name that it was made under: a changed --cluster-name renames nothing,
// and what is added to a load balancer later is named as the rest of it is.

// holding is a load balancer that has, or shall have, something of a Service.
type holding struct {
	lb *octaviaLB
	// names are those that the Service's things on it have.
	names lbNames
	// owner says that it was made for the Service.
	owner bool
}

// evidence is what a Service tells of its load balancer.
type evidence struct {
	id        string // of the annotation
	published []string
	status    []string // the part of published that the Service's user cannot write
}

func evidenceOf(ref cloud.LoadBalancerRef) evidence {
	ev := evidence{id: ref.Settings.String(annLoadBalancerID, ""), published: publishedBy(ref)}
	for _, in := range ref.CurrentIngress {
		if in.IP != "" {
			ev.status = append(ev.status, in.IP)
		}
	}
	if len(ev.status) == 0 && len(ref.CurrentIngress) > 0 { // host names: then only the annotation has the address
		ev.status = ev.published
	}
	return ev
}

// publishedBy are the addresses that a Service has published.
func publishedBy(ref cloud.LoadBalancerRef) []string {
	var out []string
	for _, in := range ref.CurrentIngress {
		if in.IP != "" {
			out = append(out, in.IP)
		}
	}
	if a := ref.Settings.String(annAddress, ""); a != "" {
		out = append(out, a)
	}
	return out
}

// shows reports whether the Service has published an address of the load balancer.
func (o *lbOperation) shows(ctx context.Context, ev evidence, lb *octaviaLB) (bool, error) {
	second := lb.secondAddress()
	switch {
	case len(ev.published) == 0:
		return false, nil
	case slices.Contains(ev.published, lb.VIPAddress), second != "" && slices.Contains(ev.published, second):
		return true, nil
	}
	fips, err := o.attachedFIPs(ctx, lb)
	return slices.ContainsFunc(fips, func(f neutron.FloatingIP) bool { return slices.Contains(ev.published, f.Address) }), err
}

// recognize says what a load balancer is to the Service, by the table above.
func (o *lbOperation) recognize(ctx context.Context, names lbNames, ev evidence, lb *octaviaLB) (*holding, error) {
	made, ok := names.madeFor(lb)
	h := &holding{lb: lb, names: made, owner: true}
	foreign := names.isForeign(lb.Tags)
	switch {
	case o.isElsewhere(lb):
		return nil, cloud.Errorf(cloud.KindConflict, "load balancer %s belongs to another project than the one that cloud.conf logs in to: correct or remove the annotation %s", lb.ID, annLoadBalancerID)
	case !ok:
		return o.share(ctx, names, ev, lb)
	case slices.Contains(lb.Tags, names.owner):
		return h, nil
	case lb.Name == names.lb && foreign:
		return nil, names.notOurs(lb)
	case lb.Name == names.lb:
		proven, err := o.shows(ctx, ev, lb)
		if lb.ID == ev.id || proven {
			return h, nil
		}
		if err == nil {
			err = names.notOurs(lb)
		}
		return nil, err
	case lb.Name == names.legacy && !foreign:
		return h, nil
	case !foreign && lb.ID == ev.id && !names.hasFormerTag(lb):
		proven, err := o.shows(ctx, evidence{published: ev.status}, lb)
		if err != nil || proven {
			return h, err
		}
	}
	return o.share(ctx, names, ev, lb)
}

// share is what a load balancer that was not made for the Service is to it.
func (o *lbOperation) share(ctx context.Context, names lbNames, ev evidence, lb *octaviaLB) (*holding, error) {
	shared, err := o.sharerNames(ctx, names, ev, lb)
	if err == nil {
		err = o.mayShare(ctx, shared, ev, lb)
	}
	return &holding{lb: lb, names: shared}, err
}

// isElsewhere reports whether a load balancer is of another project than ours: an administrator
// sees those of others as well.
func (o *lbOperation) isElsewhere(lb *octaviaLB) bool {
	project := api.ProjectOf(o.octavia)
	return project != "" && lb.ProjectID != "" && lb.ProjectID != project
}

// hasFormerTag reports whether a load balancer has a tag of the Service that is not its own name.
func (n lbNames) hasFormerTag(lb *octaviaLB) bool {
	return slices.ContainsFunc(lb.Tags, func(t string) bool { return t != lb.Name && n.isOwnTag(t) })
}

// sharerNames are the names of what the Service has on a load balancer that was not made for
// it: today's, unless it came there under another --cluster-name.
func (o *lbOperation) sharerNames(ctx context.Context, names lbNames, ev evidence, lb *octaviaLB) (lbNames, error) {
	var before []string // tags of the Service under other cluster names, or of one of its name in another cluster
	for _, t := range lb.Tags {
		if t != lb.Name && t != names.lb && names.isOwnTag(t) {
			before = append(before, t)
		}
	}
	if len(before) == 0 || slices.Contains(lb.Tags, names.lb) {
		return names, nil
	}
	listeners, err := readListeners(ctx, o.octavia, lb.ID)
	if err != nil {
		return names, err
	}
	var unmarked []string
	for _, tag := range before {
		ours, foreign := false, false
		for _, l := range listeners {
			if slices.Contains(l.Tags, tag) {
				ours = ours || slices.Contains(l.Tags, names.owner)
				foreign = foreign || names.isForeign(l.Tags)
			}
		}
		switch {
		case ours:
			return names.tagged(tag), nil
		case !foreign:
			unmarked = append(unmarked, tag)
		}
	}
	if len(unmarked) != 1 {
		return names, nil
	}
	proven, err := o.shows(ctx, ev, lb)
	if proven {
		names = names.tagged(unmarked[0])
	}
	return names, err
}

// find returns the Service's load balancer, nil when there is none: the one that the annotation
// names or, when that is gone or not set, the one that was made for the Service. KindConflict
// when there is one of its name that is not known to be its.
func (o *lbOperation) find(ctx context.Context, ref cloud.LoadBalancerRef) (*holding, error) {
	names, ev := namesFor(ref), evidenceOf(ref)
	if ev.id != "" {
		switch lb, err := o.get(ctx, ev.id); {
		case err == nil:
			return o.recognize(ctx, names, ev, lb)
		case !cloud.IsNotFound(err):
			return nil, err
		}
	}
	return o.findMade(ctx, names, ev)
}

// findMade finds the load balancer that was made for the Service. Several were when a create
// was carried out although its answer never came, and then made once more: the same one is
// taken each time, and leaveFormer removes the others.
func (o *lbOperation) findMade(ctx context.Context, names lbNames, ev evidence) (*holding, error) {
	all, err := o.named(ctx, names.lb)
	if err != nil {
		return nil, err
	}
	ours := names.ours(all)
	if o.work.surplus = len(ours) > 1; len(ours) > 0 {
		return &holding{lb: &ours[0], names: names, owner: true}, nil
	}
	others, err := o.otherwiseNamed(ctx, names, ev, len(all) == 0)
	if err != nil || len(others) > 0 {
		return first(others), err
	}
	proven, err := o.proven(ctx, names, ev, all)
	switch {
	case err != nil || len(all) == 0:
		return nil, err
	case len(proven) == 1:
		return proven[0], nil
	case len(all) == 1:
		return nil, names.notOurs(&all[0])
	}
	var ids []string
	for _, lb := range all {
		ids = append(ids, lb.ID)
	}
	return nil, cloud.Errorf(cloud.KindConflict, "%d load balancers are named %s: %s: set the annotation %s to the Service's, or delete or rename those that are not in use",
		len(all), names.lb, strings.Join(ids, ", "), annLoadBalancerID)
}

func first(all []*holding) *holding {
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// proven are those of the Service's name that are its by evidence.
func (o *lbOperation) proven(ctx context.Context, names lbNames, ev evidence, all []octaviaLB) ([]*holding, error) {
	var out []*holding
	for i := range all {
		h, err := o.recognize(ctx, names, ev, &all[i])
		switch {
		case err == nil && h.owner:
			out = append(out, h)
		case err != nil && cloud.KindOf(err) != cloud.KindConflict:
			return nil, err
		default:
			klog.FromContext(ctx).Info("Leaving a load balancer alone that is not known to be ours", "loadBalancer", all[i].ID, "name", all[i].Name, "tags", all[i].Tags)
		}
	}
	if i := slices.IndexFunc(out, func(h *holding) bool { return h.lb.ID == ev.id }); i >= 0 {
		out = out[i : i+1] // it cannot have two
	}
	return out, nil
}

// otherwiseNamed are the load balancers that were made for the Service under another name:
// under another --cluster-name or, if nothing has today's name, by its UID, as long ago.
func (o *lbOperation) otherwiseNamed(ctx context.Context, names lbNames, ev evidence, legacy bool) ([]*holding, error) {
	out, err := o.renamed(ctx, names)
	if err != nil || len(out) > 0 || !legacy || names.legacy == "" || len(ev.published) == 0 {
		return out, err
	}
	old, err := o.named(ctx, names.legacy)
	if err != nil {
		return nil, err
	}
	return o.proven(ctx, names, ev, old)
}

// held are all load balancers that hold something of the Service, for its deletion.
func (o *lbOperation) held(ctx context.Context, ref cloud.LoadBalancerRef) ([]*holding, error) {
	names, ev := namesFor(ref), evidenceOf(ref)
	all, err := o.named(ctx, names.lb)
	if err != nil {
		return nil, err
	}
	var out []*holding
	if ours := names.ours(all); len(ours) > 0 {
		for i := range ours {
			out = append(out, &holding{lb: &ours[i], names: names, owner: true})
		}
	} else if out, err = o.proven(ctx, names, ev, all); err != nil {
		return nil, err
	} else if len(out) > 1 { // which one?
		klog.FromContext(ctx).Info("Leaving load balancers alone of which only one can be the Service's", "name", names.lb)
		out = nil
	}
	if ev.id != "" && !slices.ContainsFunc(all, func(lb octaviaLB) bool { return lb.ID == ev.id }) {
		named, err := o.annotated(ctx, names, ev)
		if err != nil {
			return nil, err
		}
		out = append(named, out...)
	}
	if slices.ContainsFunc(out, func(h *holding) bool { return h.owner }) {
		return out, nil
	}
	others, err := o.otherwiseNamed(ctx, names, ev, len(all) == 0)
	return append(out, others...), err
}

// annotated is the load balancer that the annotation names, and others that were made for the
// Service under the same other name.
func (o *lbOperation) annotated(ctx context.Context, names lbNames, ev evidence) ([]*holding, error) {
	lb, err := o.get(ctx, ev.id)
	if cloud.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := o.recognize(ctx, names, ev, lb)
	switch {
	case cloud.KindOf(err) == cloud.KindConflict:
		klog.FromContext(ctx).Info("Leaving a load balancer alone that is not known to be ours", "loadBalancer", lb.ID, "name", lb.Name, "tags", lb.Tags)
		return nil, nil
	case err != nil:
		return nil, err
	}
	out := []*holding{h}
	if !h.owner || lb.Name == names.legacy {
		return out, nil
	}
	all, err := o.named(ctx, lb.Name)
	for _, more := range names.ours(all) {
		if more.ID != lb.ID {
			out = append(out, &holding{lb: &more, names: h.names, owner: true})
		}
	}
	return out, err
}
