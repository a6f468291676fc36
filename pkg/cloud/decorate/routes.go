package decorate

import (
	"context"
	"errors"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
)

// routes decorates cloud.Routes. Of a set that is applied only those are tried again that failed.
type routes struct {
	next cloud.Routes
	call *caller.Caller
}

// The calls of routes.
var (
	listRoutes  = caller.Operation{Ability: "routes", Name: "list"}
	applyRoutes = caller.Operation{Ability: "routes", Name: "apply", Mutation: true, Batched: true}
)

// List implements cloud.Routes.
func (r *routes) List(ctx context.Context, cluster cloud.Cluster) (list []cloud.Route, err error) {
	err = r.call.Do(ctx, listRoutes, func(ctx context.Context) (err error) {
		list, err = r.next.List(ctx, cluster)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Apply implements cloud.Routes.
func (r *routes) Apply(ctx context.Context, cluster cloud.Cluster, add, remove []cloud.Route) []error {
	changes := make([]int, len(add)+len(remove)) // positions in add, then in remove
	for k := range changes {
		changes[k] = k
	}
	if len(changes) == 0 {
		return nil
	}
	results := caller.Batch(ctx, r.call, applyRoutes, changes,
		func(ctx context.Context, open []int) []cloud.Result[struct{}] {
			var adding, removing []cloud.Route
			for _, k := range open {
				if k < len(add) {
					adding = append(adding, add[k])
				} else {
					removing = append(removing, remove[k-len(add)])
				}
			}
			errs := r.next.Apply(ctx, cluster, adding, removing) // in the order of open, which is that of changes
			out := make([]cloud.Result[struct{}], len(open))
			for k := range out {
				if len(errs) != len(open) {
					out[k].Err = errors.New("the provider's answers do not match the changes asked for, which is a bug in it")
				} else {
					out[k].Err = errs[k]
				}
			}
			return out
		})
	errs := make([]error, len(changes))
	for k := range results {
		errs[k] = results[k].Err
	}
	return errs
}
