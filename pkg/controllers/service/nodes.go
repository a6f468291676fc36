package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

// nodes are the candidates for members, made of the informer's Nodes when they are needed
// after a change.
type nodes struct {
	lister corelisters.NodeLister
	traits *cloud.LoadBalancerTraits
	// signal holds an element when a change is to take effect by itself.
	signal chan struct{}

	mu    sync.Mutex
	stale bool
	set   *lb.Nodes
}

func newNodes(lister corelisters.NodeLister, traits *cloud.LoadBalancerTraits) *nodes {
	return &nodes{lister: lister, traits: traits, signal: make(chan struct{}, 1), stale: true}
}

// handler notes changes of Nodes.
func (n *nodes) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { n.changed(true) },
		DeleteFunc: func(any) { n.changed(true) },
		UpdateFunc: func(old, cur any) {
			o, ok1 := old.(*corev1.Node)
			c, ok2 := cur.(*corev1.Node)
			if !ok1 || !ok2 {
				return
			}
			switch {
			case !n.sameMember(o, c):
				n.changed(true)
			case n.isCandidate(o) != n.isCandidate(c):
				// Like the framework: that a Node is about to go is no reason to cut its
				// connections at once; the next update of a load balancer leaves it out. One
				// that stays after all may have been left out already: it comes back by itself.
				n.changed(n.isCandidate(c))
			}
		},
	}
}

func (n *nodes) changed(act bool) {
	n.mu.Lock()
	n.stale = true
	n.mu.Unlock()
	if act {
		select {
		case n.signal <- struct{}{}:
		default:
		}
	}
}

// current returns the candidates.
func (n *nodes) current() (*lb.Nodes, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.stale {
		return n.set, nil
	}
	all, err := n.lister.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	n.set = lb.NewNodes(slices.DeleteFunc(all, func(node *corev1.Node) bool { return !n.isCandidate(node) }), n.traits)
	n.stale = false
	return n.set, nil
}

// sameMember reports whether two states of a Node are the same to every load balancer, but
// for whether it is about to go.
func (n *nodes) sameMember(a, b *corev1.Node) bool {
	return a.UID == b.UID && a.Spec.ProviderID == b.Spec.ProviderID && maps.Equal(a.Labels, b.Labels) &&
		lb.IsNew(a) == lb.IsNew(b) &&
		slices.Equal(lb.MemberAddresses(a, n.traits.Reach), lb.MemberAddresses(b, n.traits.Reach)) &&
		(n.traits.Eligible == nil || n.traits.Eligible(a) == n.traits.Eligible(b))
}

func (n *nodes) isCandidate(node *corev1.Node) bool { return lb.Excluded(node, n.traits.Reach) == "" }

// watch is how a change of Nodes is seen to concern a Service.
type watch struct {
	selector labels.Selector
	digest   string
}

// watched returns what each Service selects and what that was when it was last worked on.
func (r *records) watched() map[string]*watch {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]*watch, len(r.byKey))
	for key, e := range r.byKey {
		if w := e.watching.Load(); w != nil {
			out[key] = w
		}
	}
	return out
}

// members returns the Nodes and what selector selects of them, and has a change of that
// noticed from now on.
func (c *Controller) members(e *entry, selector labels.Selector) (*lb.Nodes, *lb.Selection, error) {
	for {
		set, err := c.nodes.current()
		if err != nil {
			return nil, nil, err
		}
		selection := set.Select(selector)
		e.watching.Store(&watch{selector: selector, digest: selection.Digest})
		// A pass over the Services in between would have missed us.
		if again, err := c.nodes.current(); err == nil && again == set {
			return set, selection, nil
		}
	}
}

// followNodes makes changes of Nodes take effect, many of them at once.
func (c *Controller) followNodes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.nodes.signal:
		}
		if !c.settle(ctx) {
			return
		}
		if err := c.nodePass(ctx); err != nil {
			c.Metrics.nodeSyncErrors.Inc()
			klog.FromContext(ctx).Error(err, "Cannot work out which load balancers a change of Nodes concerns")
			c.nodes.changed(true)
		}
	}
}

// settle waits until the Nodes have been quiet, but not for ever. It reports whether ctx goes on.
func (c *Controller) settle(ctx context.Context) bool {
	most := c.Clock.NewTimer(c.NodeWait)
	defer most.Stop()
	quiet := c.Clock.NewTimer(c.NodeQuiet)
	defer func() { quiet.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-most.C():
			return true
		case <-quiet.C():
			return true
		case <-c.nodes.signal:
			quiet.Stop()
			quiet = c.Clock.NewTimer(c.NodeQuiet)
		}
	}
}

// nodePass enqueues the Services whose members have changed. Nothing is planned for it:
// what the selectors of all Services select is worked out once for each selector.
func (c *Controller) nodePass(ctx context.Context) error {
	began := c.Clock.Now()
	set, err := c.nodes.current()
	if err != nil {
		return err
	}
	concerned, all := 0, 0
	for key, w := range c.records.watched() {
		all++
		if set.Select(w.selector).Digest != w.digest {
			concerned++
			c.queue.Add(key)
		}
	}
	c.Metrics.nodeSyncLatency.Observe(c.Clock.Since(began).Seconds())
	klog.FromContext(ctx).V(2).Info("Nodes have changed", "services", all, "concerned", concerned)
	return nil
}
