package openstack

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// aloneAtMost is how many load balancers are read each by itself: from one more on, one list of the
// project's is less work for Octavia.
const aloneAtMost = 2

// nameKey begins the key of a look-up by name; the others are IDs.
const nameKey = "name="

// lbFound is the answer about one key.
type lbFound struct {
	lbs []octaviaLB
	err error
}

// get reads a load balancer by its ID.
func (o *lbOperation) get(ctx context.Context, id string) (*octaviaLB, error) {
	found, err := o.lookUp(ctx, id)
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// named returns the project's load balancers of a name, in the order of their IDs.
func (o *lbOperation) named(ctx context.Context, name string) ([]octaviaLB, error) {
	all, err := o.lookUp(ctx, nameKey+name)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(lb octaviaLB) bool { return lb.Name != name || o.isElsewhere(&lb) })
	slices.SortFunc(all, func(a, b octaviaLB) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// lookUp reads the load balancers of a key, together with what other operations ask for.
func (o *lbOperation) lookUp(ctx context.Context, key string) ([]octaviaLB, error) {
	all, err := o.lb.lookUps.do(ctx, key, o.lookUpAll)
	if err != nil {
		return nil, err
	}
	found := all[key]
	return slices.Clone(found.lbs), found.err
}

// lookUpAll answers several keys. A list that lacks an ID proves nothing.
func (o *lbOperation) lookUpAll(ctx context.Context, keys map[string]bool) (map[string]lbFound, error) {
	out := make(map[string]lbFound, len(keys))
	if len(keys) > aloneAtMost {
		all, err := o.project(ctx)
		if err != nil {
			return nil, err
		}
		for _, lb := range all {
			for _, key := range [...]string{lb.ID, nameKey + lb.Name} {
				if keys[key] {
					out[key] = lbFound{lbs: append(out[key].lbs, lb)}
				}
			}
		}
	}
	for key := range keys {
		name, isName := strings.CutPrefix(key, nameKey)
		switch _, ok := out[key]; {
		case ok, isName && len(keys) > aloneAtMost:
		case isName:
			all, err := api.ListAll[octaviaLB](ctx, o.octavia, "lbaas/loadbalancers", url.Values{"name": {name}}, "loadbalancers")
			out[key] = lbFound{all, api.WrapError("find load balancer "+name, err)}
		default:
			lb, err := o.getAlone(ctx, key)
			if err != nil {
				out[key] = lbFound{err: err}
				continue
			}
			out[key] = lbFound{lbs: []octaviaLB{*lb}}
		}
	}
	return out, nil
}

// project lists the project's load balancers.
func (o *lbOperation) project(ctx context.Context) ([]octaviaLB, error) {
	query := url.Values{}
	if project := api.ProjectOf(o.octavia); project != "" { // an administrator sees those of others as well
		query.Set("project_id", project)
	}
	all, err := api.ListAll[octaviaLB](ctx, o.octavia, "lbaas/loadbalancers", query, "loadbalancers")
	return all, api.WrapError("list load balancers", err)
}

// getAlone reads one load balancer by its ID.
func (o *lbOperation) getAlone(ctx context.Context, id string) (*octaviaLB, error) {
	var answer struct {
		LoadBalancer *octaviaLB `json:"loadbalancer"`
	}
	r := loadbalancers.Get(ctx, o.octavia, id)
	if r.Err != nil {
		return nil, api.WrapError("get load balancer "+id, r.Err)
	}
	if err := r.ExtractInto(&answer); err != nil {
		return nil, fmt.Errorf("get load balancer %s: the answer is malformed: %w", id, err)
	}
	if answer.LoadBalancer == nil {
		return nil, fmt.Errorf("get load balancer %s: the answer holds none", id)
	}
	if answer.LoadBalancer.Status == "DELETED" {
		return nil, cloud.Errorf(cloud.KindNotFound, "load balancer %s is deleted", id)
	}
	return answer.LoadBalancer, nil
}
