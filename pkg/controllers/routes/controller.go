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
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/tracing"
)

const (
	// changeAtOnce is how many routes are made, and how many removed, in one pass: a Node's may
	// cost calls of its own, and the next pass sees which Nodes have come and gone meanwhile.
	changeAtOnce = 100
	// adoptAtOnce is how many routes of others' making are recorded in one pass: each may be
	// a call of its own, and new Nodes wait meanwhile.
	adoptAtOnce = 50
	// pauseMin is the least time between passes that changes of Nodes begin.
	pauseMin = time.Second
	// repeatAfter is how long the same event about a Node is not repeated, and what somebody has to
	// mend in the cloud is not tried again.
	repeatAfter = 5 * time.Minute
)

// Reasons of events; the first is the framework's. The comments are what docs/reference/events.md says of each.
const (
	// Warning on Node: the route of its pod CIDR could not be made, and it is tried again. Next: mend what the event says; its pods are not
	// reached from other Nodes.
	eventFailed = "FailedToCreateRoute"
	// Warning on Node: a route that leads its pod CIDR elsewhere could not be deleted. Next: mend what the event says.
	eventStuck = "FailedToDeleteRoute"
	// Warning on Node: its condition NetworkUnavailable could not be written. Next: look at the API server's answer in the event.
	eventUnrecorded = "FailedToRecordRoute"
	// Warning on Node: somebody else's route takes its traffic, and is left there. Next: delete that route, or give the Node another pod CIDR.
	eventConflict = "RouteConflict"
	// Warning on Namespace kube-system: routes that lead to no Node are kept, as too many of them would go. Next: look whether those Nodes
	// are gone; the event says how to let the routes go.
	eventHeld = "RouteRemovalHeld"
	// Normal on Namespace kube-system: no routes are kept any more that lead to no Node.
	eventResumed = "RouteRemovalResumed"
)

// Config is what a Controller works with. All is required.
type Config struct {
	Client kubernetes.Interface
	Nodes  coreinformers.NodeInformer
	Routes cloud.Routes
	Traits cloud.RouteTraits
	// Owns is the provider's, whose routes lead to its own instances only.
	Owns     func(*corev1.Node) bool
	Cluster  cloud.Cluster
	Recorder record.EventRecorder
	// Period is how often routes are compared with Nodes, beside when Nodes change.
	Period  time.Duration
	Guard   Guard
	Metrics *Metrics
	Clock   clock.PassiveClock
}

// Controller keeps the routes. New makes one, Run runs it once.
type Controller struct {
	client   kubernetes.Interface
	nodes    coreinformers.NodeInformer
	routes   cloud.Routes
	routing  routing
	cluster  cloud.Cluster
	recorder record.EventRecorder
	period   time.Duration
	guard    Guard
	metrics  *Metrics
	clock    clock.PassiveClock
	status   *conditions

	// Of the passes, which follow each other:
	known    map[path]bool       // see plan
	adopted  map[path]bool       // that an attempt to record them has succeeded
	failures map[path]int        // of routes to be made, how often each has failed
	refused  map[attempt]refusal // see due
	reported map[event]time.Time // when an event was published last
	hold     hold
	more     bool // to do, as it seems: the next pass does so at once
}

// event is what is not repeated at once.
type event struct{ node, reason, message string }

// New makes a Controller.
func New(c Config) *Controller {
	return &Controller{
		client: c.Client, nodes: c.Nodes, routes: c.Routes, routing: routing{c.Traits, c.Owns}, cluster: c.Cluster, recorder: c.Recorder, period: c.Period,
		guard: c.Guard, metrics: c.Metrics, clock: c.Clock,
		status: newConditions(c.Client, c.Nodes),
		known:  map[path]bool{}, adopted: map[path]bool{}, failures: map[path]int{}, refused: map[attempt]refusal{}, reported: map[event]time.Time{},
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
		c.traced(ctx)
		if c.more {
			tell(changed)
		}
		c.rest(ctx, changed)
	}
	return nil
}

// traced is a pass, as a span.
func (c *Controller) traced(ctx context.Context) {
	ctx, span := tracing.Start(ctx, "routes pass")
	defer span.End()
	c.pass(ctx)
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
			if !ok || !is || a.Spec.ProviderID != b.Spec.ProviderID || !slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs) || !slices.Equal(a.Status.Addresses, b.Status.Addresses) ||
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
	c.more = false
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
	p, sure := makePlan(list, nodes, c.known, c.routing), true
	if len(p.remove)+len(p.gone) > 0 {
		if live := c.liveNodes(ctx, p); live != nil {
			nodes = live
			p = makePlan(list, nodes, c.known, c.routing)
		} else {
			sure, p.remove, p.gone = false, nil, nil
		}
	}
	c.known = p.known
	maps.DeleteFunc(c.refused, func(_ attempt, r refusal) bool { return !c.clock.Now().Before(r.until) })
	if sure {
		p.remove = append(p.remove, c.removable(ctx, p)...)
	}
	result := c.change(ctx, p)
	if ctx.Err() != nil {
		return
	}
	names := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		names[n.Name] = true
		if len(n.Spec.PodCIDRs) > 0 && !p.stranger[n.Name] {
			c.settle(n, p, result)
		}
	}
	c.status.keep(names)
	maps.DeleteFunc(c.reported, func(_ event, at time.Time) bool { return c.clock.Since(at) > repeatAfter })
	if len(result.pending) == 0 {
		c.adopt(ctx, p)
	}
}

// settle says on the Node how its routes are.
func (c *Controller) settle(n *corev1.Node, p *plan, result result) {
	complete, pending := p.problems[n.Name] == "", false
	if !complete && !p.silent[n.Name] {
		c.report(n, eventFailed, p.problems[n.Name])
	}
	for _, at := range p.need[n.Name] {
		pending = pending || result.pending[at]
		if err := result.failed[at]; err != nil {
			complete = false
			c.report(n, eventFailed, fmt.Sprintf("Could not create route to %s via %s: %v%s", at.destination, at.hop, err, c.nextStep(err)))
		}
		for other, err := range result.stuck {
			if other.destination == at.destination {
				c.report(n, eventStuck, fmt.Sprintf("Could not delete route to %s via %s, which does not lead to the Node: %v%s", other.destination, other.hop, err, c.nextStep(err)))
			}
		}
	}
	for _, at := range p.conflicts[n.Name] {
		c.report(n, eventConflict, fmt.Sprintf("Somebody else's route leads %s to %s, which is no Node: it is left there, but takes the Node's traffic", at.destination, at.hop))
	}
	if complete && pending && says(n, true) {
		return // one that it had was lost, and its turn is soon
	}
	c.status.want(n.Name, complete && !pending)
}

func (c *Controller) report(n *corev1.Node, reason, message string) {
	e := event{n.Name, reason, message}
	if last, ok := c.reported[e]; ok && c.clock.Since(last) < repeatAfter {
		return
	}
	c.reported[e] = c.clock.Now()
	c.recorder.Event(n, corev1.EventTypeWarning, reason, message)
}
