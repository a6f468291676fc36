package openstack

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// renamedLBs are the IDs of the load balancers that carry the cluster's tag and the name of
// another --cluster-name than today's, by their Service. They are read once a process, when
// the first Service is not found by its annotation or today's name: no further ones are made
// meanwhile. Those that are gone are forgotten.
type renamedLBs struct {
	reading singleflight.Group

	mu    sync.Mutex
	scope string // of which they were read, "" for not yet
	ids   map[string][]string
}

// renamed are the load balancers that were made for the Service under another --cluster-name.
func (o *lbOperation) renamed(ctx context.Context, names lbNames) ([]*holding, error) {
	ids, err := o.renamedIDs(ctx, names)
	if err != nil {
		return nil, err
	}
	var out []*holding
	for _, id := range ids {
		lb, err := o.get(ctx, id)
		if cloud.IsNotFound(err) {
			o.lb.renamed.forget(id)
			continue
		}
		if err != nil {
			return nil, err
		}
		if made, ok := names.madeFor(lb); ok && slices.Contains(lb.Tags, names.owner) {
			out = append(out, &holding{lb: lb, names: made, owner: true})
		}
	}
	return out, nil
}

func (o *lbOperation) renamedIDs(ctx context.Context, names lbNames) ([]string, error) {
	r, scope := &o.lb.renamed, api.ScopeOf(o.octavia)
	get := func() (ids []string, known bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Clone(r.ids[names.service()]), r.scope == scope
	}
	if ids, known := get(); known {
		return ids, nil
	}
	_, err, _ := r.reading.Do(scope, func() (any, error) {
		all, err := api.ListAll[octaviaLB](ctx, o.octavia, "lbaas/loadbalancers", url.Values{"tags": {names.owner}}, "loadbalancers")
		if err != nil {
			return nil, api.WrapError("list load balancers with tag "+names.owner, err)
		}
		found := map[string][]string{}
		for i := range all {
			lb := &all[i]
			cluster, service, ok := madeOf(lb)
			if ok && cluster != names.cluster && slices.Contains(lb.Tags, names.owner) && !o.isElsewhere(lb) {
				found[service] = append(found[service], lb.ID)
			}
		}
		for _, ids := range found {
			slices.Sort(ids)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.scope, r.ids = scope, found
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	ids, _ := get()
	return ids, nil
}

func (r *renamedLBs) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for service, ids := range r.ids {
		if ids = slices.DeleteFunc(ids, func(x string) bool { return x == id }); len(ids) == 0 {
			delete(r.ids, service)
		} else {
			r.ids[service] = ids
		}
	}
}

// madeOf takes apart for which cluster and Service a load balancer was made. A name that was
// cut does not tell all of it; then the description, which is cut behind the Service, does.
func madeOf(lb *octaviaLB) (cluster, service string, ok bool) {
	if len(lb.Name) < maxName {
		return splitLBName(lb.Name)
	}
	text, ok1 := strings.CutPrefix(lb.Description, servicePrefix)
	service, cluster, ok2 := strings.Cut(text, fromCluster)
	return cluster, service, ok1 && ok2 && strings.HasPrefix(lb.Name, lbNamePrefix) && strings.Count(service, "/") == 1
}

// splitLBName takes the name of a load balancer, or the tag of a Service, apart. Cluster names
// may have underscores, the others have none.
func splitLBName(name string) (cluster, service string, ok bool) {
	rest, ok := strings.CutPrefix(name, lbNamePrefix)
	i := strings.LastIndexByte(rest, '_')
	if !ok || i < 0 || len(name) >= maxName {
		return "", "", false
	}
	j := strings.LastIndexByte(rest[:i], '_')
	if j < 0 {
		return "", "", false
	}
	return rest[:j], rest[j+1:i] + "/" + rest[i+1:], true
}
