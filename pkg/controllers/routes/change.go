package routes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// result is what became of a plan.
type result struct {
	failed  map[path]error // of routes to be made
	pending map[path]bool  // to be made in a later pass
}

// change makes and removes routes, as many as belong into one pass, as one set. But where a Node's
// hop changes, the old route goes after the new one is there, or before where both cannot be.
func (c *Controller) change(ctx context.Context, p *plan) result {
	out := result{failed: map[path]error{}, pending: map[path]bool{}}
	remove := p.remove[:min(len(p.remove), changeAtOnce)]
	old, remove := p.replaced(remove)
	removed := true
	if p.OneHop || p.Max > 0 && len(p.listed)+len(p.add) > p.Max {
		removed = c.removed(ctx, p, old, c.apply(ctx, nil, old))
		old = nil
	}
	fit, over := p.room()
	for _, r := range over {
		out.failed[pathOf(r)] = fmt.Errorf("the route table is full: it holds %d of at most %d routes", len(p.listed), p.Max)
	}
	add, later := c.firstToAdd(fit)
	for _, r := range later {
		out.pending[pathOf(r)] = true
	}
	errs := c.apply(ctx, add, remove)
	for k, r := range add {
		logger, at := loggerOf(ctx, r), pathOf(r)
		switch err := errs[k]; {
		case err == nil:
			delete(c.failures, at)
			c.known[at] = true
			logger.V(2).Info("Route is made")
		case ctx.Err() == nil:
			c.failures[at]++
			out.failed[at] = err
			logger.V(2).Info("Route cannot be made, will try again", "reason", err.Error())
		}
	}
	removed = c.removed(ctx, p, remove, errs[len(add):]) && removed
	removed = c.removed(ctx, p, old, c.apply(ctx, nil, old)) && removed
	more := len(p.remove) > changeAtOnce || len(over) > 0 && len(p.remove) > 0
	c.more = len(later) > 0 && c.failures[pathOf(later[0])] == 0 || more && removed
	return out
}

// removed notes what became of removals, and reports whether all were made.
func (c *Controller) removed(ctx context.Context, p *plan, routes []cloud.Route, errs []error) bool {
	all := true
	for k, r := range routes {
		switch err := errs[k]; {
		case err == nil:
			delete(p.listed, pathOf(r))
			loggerOf(ctx, r).V(2).Info("Route is removed")
		case ctx.Err() == nil:
			all = false
			loggerOf(ctx, r).Error(err, "Route cannot be removed, will try again")
		}
	}
	return all
}

// firstToAdd are the routes to be made in this pass: those that have failed least.
func (c *Controller) firstToAdd(add []cloud.Route) (first, later []cloud.Route) {
	wanted := make(map[path]bool, len(add))
	for _, r := range add {
		wanted[pathOf(r)] = true
	}
	maps.DeleteFunc(c.failures, func(at path, _ int) bool { return !wanted[at] })
	sorted := slices.Clone(add)
	slices.SortStableFunc(sorted, func(a, b cloud.Route) int { return cmp.Compare(c.failures[pathOf(a)], c.failures[pathOf(b)]) })
	n := min(len(sorted), changeAtOnce)
	return sorted[:n], sorted[n:]
}

// adopt records routes that lead to their Nodes and have no record, some in each pass. A cloud
// that keeps no records is asked once.
func (c *Controller) adopt(ctx context.Context, p *plan) {
	maps.DeleteFunc(c.adopted, func(at path, _ bool) bool { return !p.known[at] })
	open := slices.DeleteFunc(slices.Clone(p.adopt), func(r cloud.Route) bool { return c.adopted[pathOf(r)] })
	open = open[:min(len(open), adoptAtOnce)]
	all := true
	for k, err := range c.apply(ctx, open, nil) {
		switch {
		case err == nil:
			c.adopted[pathOf(open[k])] = true
			loggerOf(ctx, open[k]).V(2).Info("Route that leads to its Node is recorded as the cluster's")
		case ctx.Err() == nil:
			all = false
			loggerOf(ctx, open[k]).Error(err, "Route cannot be recorded as the cluster's, will try again")
		}
	}
	c.more = c.more || len(open) == adoptAtOnce && all
}

// apply is Routes.Apply with an answer to each route.
func (c *Controller) apply(ctx context.Context, add, remove []cloud.Route) []error {
	n := len(add) + len(remove)
	if n == 0 {
		return nil
	}
	errs := c.routes.Apply(ctx, c.cluster, add, remove)
	if len(errs) != n {
		return slices.Repeat([]error{fmt.Errorf("the provider gave %d answers about %d routes, which is a bug in it", len(errs), n)}, n)
	}
	return errs
}

func loggerOf(ctx context.Context, r cloud.Route) klog.Logger {
	return klog.FromContext(ctx).WithValues("destination", r.Destination, "nextHop", r.Hop(), "node", r.Node.NodeName)
}
