package routes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	// adoptAtOnce is how many routes of others' making are recorded in one pass: each may be
	// a call of its own, and new Nodes wait meanwhile.
	adoptAtOnce = 50
	// pauseMin is the least time between passes that changes of Nodes begin.
	pauseMin = time.Second
	// repeatAfter is how long the same event about a Node is not repeated.
	repeatAfter = 5 * time.Minute
)

// Reasons of events; the first is the framework's.
const (
	eventFailed   = "FailedToCreateRoute"
	eventConflict = "RouteConflict"
)

// Controller keeps the routes. New makes one, Run runs it once.
type Controller struct {
	nodes    coreinformers.NodeInformer
	routes   cloud.Routes
	cluster  cloud.Cluster
	recorder record.EventRecorder
	period   time.Duration
	status   *conditions

	// Of the passes, which follow each other:
	known    map[path]bool       // see plan
	adopted  map[path]bool       // that an attempt to record them has succeeded
	reported map[event]time.Time // when an event was published last
	more     bool                // to record, as it seems: the next pass does so at once
}

// event is what is not repeated at once.
type event struct{ node, reason, message string }

// New makes a Controller that compares routes with Nodes every period and when Nodes change.
func New(client kubernetes.Interface, nodes coreinformers.NodeInformer, routes cloud.Routes, cluster cloud.Cluster, recorder record.EventRecorder, period time.Duration) *Controller {
	return &Controller{
		nodes: nodes, routes: routes, cluster: cluster, recorder: recorder, period: period,
		status: newConditions(client, nodes),
		known:  map[path]bool{}, adopted: map[path]bool{}, reported: map[event]time.Time{},
	}
}

// Run works until ctx ends and returns when nothing is under way any more.
func (c *Controller) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	informer := c.nodes.Informer()
	registration, err := informer.AddEventHandler(handlers(changed))
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }() // it is there
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { c.status.run(ctx) })
	for ctx.Err() == nil {
		select { // this pass sees what has changed so far
		case <-changed:
		default:
		}
		c.more = false
		c.pass(ctx)
		if c.more {
			tell(changed)
		}
		c.rest(ctx, changed)
	}
	return nil
}

// rest waits for the next pass.
func (c *Controller) rest(ctx context.Context, changed <-chan struct{}) {
	least, next := time.NewTimer(min(pauseMin, c.period)), time.NewTimer(c.period)
	defer least.Stop()
	defer next.Stop()
	select {
	case <-ctx.Done():
		return
	case <-least.C:
	}
	select {
	case <-ctx.Done():
	case <-next.C:
	case <-changed:
	}
}

// handlers report every change of Nodes that routes depend on.
func handlers(changed chan<- struct{}) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { tell(changed) },
		DeleteFunc: func(any) { tell(changed) },
		UpdateFunc: func(before, now any) {
			a, ok := before.(*corev1.Node)
			b, is := now.(*corev1.Node)
			if !ok || !is || !slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs) || !slices.Equal(a.Status.Addresses, b.Status.Addresses) ||
				isUninitialized(a) != isUninitialized(b) {
				tell(changed)
			}
		},
	}
}

// tell begins a pass as soon as that may be.
func tell(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// pass compares and changes once. What fails is tried again in the next one.
func (c *Controller) pass(ctx context.Context) {
	logger := klog.FromContext(ctx)
	list, err := c.routes.List(ctx, c.cluster)
	if err != nil {
		if ctx.Err() == nil {
			logger.Error(err, "Routes of the cloud cannot be listed, will try again")
		}
		return
	}
	nodes, err := c.nodes.Lister().List(labels.Everything())
	if err != nil {
		logger.Error(err, "Nodes cannot be listed")
		return
	}
	p := makePlan(list, nodes, c.known)
	c.known = p.known
	failed := c.apply(ctx, p)
	if ctx.Err() != nil {
		return
	}
	names := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		names[n.Name] = true
		if len(n.Spec.PodCIDRs) > 0 {
			c.settle(n, p, failed)
		}
	}
	c.status.keep(names)
	maps.DeleteFunc(c.reported, func(_ event, at time.Time) bool { return time.Since(at) > repeatAfter })
}

// apply makes the changes and returns the errors of what shall be there.
func (c *Controller) apply(ctx context.Context, p *plan) (failed map[path]error) {
	adopt := c.unrecorded(p)
	set := slices.Concat(p.add, adopt)
	if len(set)+len(p.remove) == 0 {
		return nil
	}
	logger := klog.FromContext(ctx)
	errs := c.routes.Apply(ctx, c.cluster, set, p.remove)
	failed = map[path]error{}
	for k, r := range slices.Concat(set, p.remove) {
		err := fmt.Errorf("the provider gave %d answers about %d routes, which is a bug in it", len(errs), len(set)+len(p.remove))
		if len(errs) == len(set)+len(p.remove) {
			err = errs[k]
		}
		logger := logger.WithValues("destination", r.Destination, "nextHop", r.NextHop, "node", r.Node.NodeName)
		switch {
		case err != nil && ctx.Err() != nil:
		case err != nil && k < len(p.add):
			failed[pathOf(r)] = err
			logger.V(2).Info("Route cannot be made, will try again", "reason", err.Error())
		case err != nil:
			logger.Error(err, "Route cannot be changed, will try again", "remove", k >= len(set))
		case k < len(p.add):
			logger.V(2).Info("Route is made")
		case k < len(set):
			c.adopted[pathOf(r)] = true
			logger.V(2).Info("Route that leads to its Node is recorded as the cluster's")
		default:
			logger.V(2).Info("Route is removed")
		}
	}
	c.more = len(adopt) == adoptAtOnce && !slices.ContainsFunc(adopt, func(r cloud.Route) bool { return !c.adopted[pathOf(r)] })
	return failed
}

// unrecorded are routes to record in this pass. A cloud that keeps no records is asked once.
func (c *Controller) unrecorded(p *plan) []cloud.Route {
	maps.DeleteFunc(c.adopted, func(at path, _ bool) bool { return !p.known[at] })
	out := slices.DeleteFunc(slices.Clone(p.adopt), func(r cloud.Route) bool { return c.adopted[pathOf(r)] })
	return out[:min(len(out), adoptAtOnce)]
}

// settle says on the Node how its routes are.
func (c *Controller) settle(n *corev1.Node, p *plan, failed map[path]error) {
	complete := p.problems[n.Name] == ""
	if !complete && !p.silent[n.Name] {
		c.report(n, eventFailed, p.problems[n.Name])
	}
	for _, at := range p.need[n.Name] {
		if err := failed[at]; err != nil {
			complete = false
			c.report(n, eventFailed, fmt.Sprintf("Could not create route to %s via %s: %v", at.destination, at.nextHop, err))
		}
	}
	for _, at := range p.conflicts[n.Name] {
		c.report(n, eventConflict, fmt.Sprintf("Somebody else's route leads %s to %s, which is no Node: it is left there, but takes the Node's traffic", at.destination, at.nextHop))
	}
	c.status.want(n.Name, complete)
}

func (c *Controller) report(n *corev1.Node, reason, message string) {
	e := event{n.Name, reason, message}
	if last, ok := c.reported[e]; ok && time.Since(last) < repeatAfter {
		return
	}
	c.reported[e] = time.Now()
	c.recorder.Event(n, corev1.EventTypeWarning, reason, message)
}
