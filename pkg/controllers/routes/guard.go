package routes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

const (
	// remindAfter is how often an Event says again that routes are held.
	remindAfter = 10 * time.Minute
	// liveWhileHeld is how far apart live reads of all Nodes are while routes are held.
	liveWhileHeld = time.Minute
)

// Guard says when the routes of Nodes that are gone are removed at once and when they are held:
// a list of Nodes that lacks most of them is rather an API server that was restored from a
// backup, or asked too early, than a cluster without Nodes.
type Guard struct {
	// Limits are of the cluster's routes that may go in one pass. A Percent of 100 lets all go.
	Limits deletionguard.Limits
	// Operator reads an operator's word. It is asked while routes are held. May be nil.
	Operator func(context.Context) deletionguard.Operator
	// Release says how an operator does that now, in an Event.
	Release func(now time.Time) string
}

// loss are the cluster's routes of one IP family by what became of their Nodes: kept lead to
// one, gone to none.
type loss struct{ gone, kept int }

// evaluate says why the routes of Nodes that are gone stay, "" when they may go. It is the deletion guard's
// rule, by which the routes that are kept show that this is the cluster's list of Nodes; but one may always go.
func (g *Guard) evaluate(l loss, lasted time.Duration) string {
	counts := deletionguard.Counts{Seen: l.kept, SeenHere: l.kept, Missing: l.gone, MissingHere: l.gone}
	verdict := deletionguard.Evaluate(deletionguard.Input{Claim: deletionguard.IDNotFound, Evidence: deletionguard.IDResolved,
		Counts: counts, Limits: &g.Limits, Lasted: lasted})
	switch total := l.gone + l.kept; {
	case l.gone <= 1 || verdict.Allows():
		return ""
	case l.kept == 0:
		return fmt.Sprintf("not one of the %d routes leads to a node", total)
	default:
		return fmt.Sprintf("%d of %d routes lead to no node, more than the limit of %d", l.gone, total, g.Limits.Of(counts))
	}
}

// judge says why nothing of p.gone may be removed, "" when it may.
func (g *Guard) judge(p *plan, lasted time.Duration) string {
	for _, l := range p.losses() {
		if reason := g.evaluate(l, lasted); reason != "" {
			return reason
		}
	}
	return ""
}

// losses counts by family: a Node of both has a route of each.
func (p *plan) losses() [2]loss {
	var out [2]loss
	family := func(at path) *loss {
		if at.destination.Addr().Is4() {
			return &out[0]
		}
		return &out[1]
	}
	for _, r := range p.gone {
		family(pathOf(r)).gone++
	}
	for at := range p.fitting {
		family(at).kept++
	}
	return out
}

// hold is what a Controller remembers of routes that it does not remove.
type hold struct {
	over   time.Time // since when the limit is exceeded; zero while it is not
	told   time.Time // when an Event said so last; zero while nothing is held
	looked time.Time // when Nodes were read live last
	reason string    // of the last verdict; "" while nothing is held
}

// liveNodes reads all Nodes from the API server: an informer may be behind, and no route is
// removed on its word. It is nil where that fails, or is not due again for routes that are held.
func (c *Controller) liveNodes(ctx context.Context, p *plan) []*corev1.Node {
	now := c.clock.Now()
	if c.hold.reason != "" && len(p.remove) == 0 && now.Sub(c.hold.looked) < liveWhileHeld {
		if !c.operator(ctx).Confirmed { // what is wrong with it is told when the read is due
			return nil
		}
	}
	c.hold.looked = now
	nodes := []*corev1.Node{}
	err := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
		return c.client.CoreV1().Nodes().List(ctx, o)
	})).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		node, ok := o.(*corev1.Node)
		if !ok {
			return fmt.Errorf("%T in a list of nodes", o)
		}
		node.ManagedFields, node.Status.Images = nil, nil // most of a Node, and not needed
		nodes = append(nodes, node)
		return nil
	})
	if err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Routes are not removed, as it is not certain which Nodes there are; will try again")
		}
		return nil
	}
	return nodes
}

// operator asks whether an operator lets routes go.
func (c *Controller) operator(ctx context.Context) deletionguard.Operator {
	if c.guard.Operator == nil {
		return deletionguard.Operator{}
	}
	return c.guard.Operator(ctx)
}

// removable returns the routes of Nodes that are gone which may be removed now, and tells of
// those that may not.
func (c *Controller) removable(ctx context.Context, p *plan) []cloud.Route {
	reason := c.guard.judge(p, 0)
	if reason == "" {
		c.hold.over = time.Time{}
	} else if c.hold.over.IsZero() {
		c.hold.over = c.clock.Now()
	} else {
		reason = c.guard.judge(p, c.clock.Since(c.hold.over))
	}
	if reason != "" {
		switch word := c.operator(ctx); {
		case word.Problem != "":
			reason += "; " + word.Problem
		case word.Confirmed:
			klog.FromContext(ctx).V(2).Info("An operator lets these routes go", "routes", len(p.gone), "doubt", reason)
			reason = ""
		}
	}
	c.tell(ctx, len(p.gone), reason)
	if reason != "" {
		return nil
	}
	return p.gone
}

// tell says in the log, in Events and by the metric that routes are held, or no more.
func (c *Controller) tell(ctx context.Context, gone int, reason string) {
	logger, now := klog.FromContext(ctx), c.clock.Now()
	namespace := &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: metav1.NamespaceSystem}
	c.hold.reason = reason
	switch {
	case reason == "" && c.hold.told.IsZero():
	case reason == "":
		c.hold.told = time.Time{}
		logger.Info("No routes are held any more")
		c.recorder.Event(namespace, corev1.EventTypeNormal, eventResumed, "No routes are kept any more that lead to no Node")
	case c.hold.told.IsZero() || now.Sub(c.hold.told) >= remindAfter:
		c.hold.told = now
		logger.Info("Routes that lead to no Node are kept, as they are many", "routes", gone, "reason", reason, "since", c.hold.over)
		c.recorder.Eventf(namespace, corev1.EventTypeWarning, eventHeld, "%d routes that lead to no Node are kept: %s. %s", gone, reason, c.guard.Release(now))
	}
	if reason == "" {
		gone = 0
	}
	c.metrics.held.Set(float64(gone))
}
