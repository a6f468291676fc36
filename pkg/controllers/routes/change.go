package routes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// result is what became of a plan.
type result struct {
	failed  map[path]error // of routes to be made
	stuck   map[path]error // of routes to be removed, as long as nobody mends something in the cloud
	pending map[path]bool  // to be made in a later pass
	// removed is how many routes are gone, kept how many are not although they should.
	removed, kept int
}

// change makes and removes routes, as many as belong into one pass, as one set. But where a Node's
// hop changes, the old route goes after the new one is there, or just before where both cannot be:
// it stays while the new one fails or waits for its turn.
func (c *Controller) change(ctx context.Context, p *plan) result {
	out := result{stuck: map[path]error{}, pending: map[path]bool{}}
	p.remove, _ = c.due(p.remove, true)
	old, remove := p.replaced(p.remove)
	p.add, out.failed = c.due(p.add, false)
	more := len(remove) > changeAtOnce
	remove = remove[:min(len(remove), changeAtOnce)]
	before := p.OneHop || p.Max > 0 && len(p.listed)+len(p.add) > p.Max
	if !before {
		old = nil
	}
	fit, over := p.room(old)
	for _, r := range over {
		out.failed[pathOf(r)] = cloud.Errorf(cloud.KindQuota, "the route table is full: it holds %d of at most %d routes", len(p.listed), p.Max)
	}
	add, later := c.firstToAdd(fit)
	for _, r := range later {
		out.pending[pathOf(r)] = true
	}
	old = leadingWhere(old, add)
	c.removed(ctx, &out, old, c.apply(ctx, nil, old))
	errs := c.apply(ctx, add, remove)
	made := c.made(ctx, &out, add, errs[:len(add)])
	c.removed(ctx, &out, remove, errs[len(add):])
	if !before {
		old, _ = p.replaced(p.remove)
		old = leadingWhere(old, made)
		c.removed(ctx, &out, old, c.apply(ctx, nil, old))
	}
	more = more || len(over) > 0 && out.removed > 0
	c.more = len(later) > 0 && c.failures[pathOf(later[0])] == 0 || more && out.kept == 0
	return out
}

// leadingWhere are the routes of old to where one of add leads.
func leadingWhere(old, add []cloud.Route) (out []cloud.Route) {
	for _, r := range old {
		if slices.ContainsFunc(add, func(a cloud.Route) bool { return a.Destination == r.Destination.Masked() }) {
			out = append(out, r)
		}
	}
	return out
}

// made notes what became of routes to be made, and returns those that are there.
func (c *Controller) made(ctx context.Context, out *result, add []cloud.Route, errs []error) (made []cloud.Route) {
	for k, r := range add {
		logger, at := loggerOf(ctx, r), pathOf(r)
		switch err := errs[k]; {
		case err == nil:
			made = append(made, r)
			delete(c.failures, at)
			c.known[at] = true
			logger.V(2).Info("Route is made")
		case ctx.Err() == nil:
			c.failures[at]++
			out.failed[at] = err
			logger.V(2).Info("Route cannot be made, will try again", "reason", err.Error())
		}
	}
	return made
}

// removed notes what became of removals.
func (c *Controller) removed(ctx context.Context, out *result, routes []cloud.Route, errs []error) {
	for k, r := range routes {
		switch err := errs[k]; {
		case err == nil:
			out.removed++
			maps.DeleteFunc(c.refused, func(_ attempt, r refusal) bool { return cloud.KindOf(r.err) == cloud.KindQuota }) // there is room now
			loggerOf(ctx, r).V(2).Info("Route is removed")
		case ctx.Err() == nil:
			out.kept++
			if c.nextStep(err) != "" {
				out.stuck[pathOf(r)] = err
			}
			loggerOf(ctx, r).Error(err, "Route cannot be removed, will try again")
		}
	}
}

// nextStep says what somebody has to do before a change can succeed, "" if nobody has to.
func (c *Controller) nextStep(err error) string {
	switch cloud.KindOf(err) {
	case cloud.KindQuota:
		return fmt.Sprintf("; make room in the route table or raise the quota, it is tried again every %s", max(c.period, repeatAfter))
	case cloud.KindFailed:
		return fmt.Sprintf("; mend it in the cloud, it is tried again every %s", max(c.period, repeatAfter))
	}
	return ""
}

// attempt is a change of one route: made or recorded, or removed.
type attempt struct {
	path
	remove bool
}

// refusal is what became of an attempt before whose success somebody has to do something.
type refusal struct {
	err   error
	until time.Time // it is not made again before
}

// due are the routes to be changed now, and why the others are not: they were refused a short while ago.
func (c *Controller) due(routes []cloud.Route, remove bool) (now []cloud.Route, refused map[path]error) {
	refused = map[path]error{}
	for _, r := range routes {
		at := pathOf(r)
		if no, ok := c.refused[attempt{at, remove}]; ok {
			refused[at] = no.err
		} else {
			now = append(now, r)
		}
	}
	return now, refused
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
	open, _ := c.due(slices.DeleteFunc(slices.Clone(p.adopt), func(r cloud.Route) bool { return c.adopted[pathOf(r)] }), false)
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
			c.unrecorded(open[k], err)
		}
	}
	c.more = c.more || len(open) == adoptAtOnce && all
}

// unrecorded says on its Node that a route is not recorded, where somebody has to do something.
func (c *Controller) unrecorded(r cloud.Route, err error) {
	step := c.nextStep(err)
	n, gone := c.nodes.Lister().Get(r.Node.NodeName)
	if step == "" || gone != nil {
		return
	}
	c.report(n, eventUnrecorded, fmt.Sprintf("Could not record the route to %s via %s as the cluster's, without which it stays when the Node is gone: %v%s", r.Destination, r.Hop(), err, step))
}

// apply is Routes.Apply with an answer to each route; what is refused is not due for a while.
func (c *Controller) apply(ctx context.Context, add, remove []cloud.Route) []error {
	n := len(add) + len(remove)
	if n == 0 {
		return nil
	}
	errs := c.routes.Apply(ctx, c.cluster, add, remove)
	if len(errs) != n {
		return slices.Repeat([]error{fmt.Errorf("the provider gave %d answers about %d routes, which is a bug in it", len(errs), n)}, n)
	}
	for k, r := range slices.Concat(add, remove) {
		if c.nextStep(errs[k]) != "" {
			c.refused[attempt{pathOf(r), k >= len(add)}] = refusal{errs[k], c.clock.Now().Add(repeatAfter)}
		}
	}
	return errs
}

func loggerOf(ctx context.Context, r cloud.Route) klog.Logger {
	return klog.FromContext(ctx).WithValues("destination", r.Destination, "nextHop", r.Hop(), "node", r.Node.NodeName)
}
