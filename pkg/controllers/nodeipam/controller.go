package nodeipam

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	netutils "k8s.io/utils/net"

	"github.com/isthmus-cloud/isthmus/pkg/controllers/workers"
)

const (
	// concurrency is how many Nodes are written at a time. They share the client's rate limit,
	// where there is one, and the wait for their turn counts into patchTimeout.
	concurrency = 10
	// retryMin and retryMax bound the pause before a Node is tried again.
	retryMin, retryMax = 50 * time.Millisecond, time.Minute
	// pageSize is how many Nodes one page of the list at the start has.
	pageSize = 500
)

// Cluster is the Kubernetes cluster that a controller works in. All is required.
type Cluster struct {
	Client kubernetes.Interface
	// Nodes must be a running informer.
	Nodes coreinformers.NodeInformer
	// Recorder publishes events about Nodes.
	Recorder record.EventRecorder
}

// newQueue returns what the controller's workers take the names of Nodes from.
func newQueue() workqueue.TypedRateLimitingInterface[string] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryMin, retryMax),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "node_ipam_controller"})
}

// Controller gives Nodes their pod CIDRs. New makes one, Run runs it once.
type Controller struct {
	Cluster
	queue workqueue.TypedRateLimitingInterface[string]

	mu     sync.Mutex
	ledger *ledger
	// gone are the Nodes that were deleted while the first list was read; nil once it is.
	gone map[types.UID]bool
	// waiting are the Nodes for which no CIDR was left, with the time of their last event.
	waiting map[string]time.Time
}

// New makes a Controller of a configuration that Validate has accepted.
func New(cluster Cluster, config Config, m *Metrics) *Controller {
	return &Controller{Cluster: cluster, queue: newQueue(), ledger: newLedger(config, m), gone: map[types.UID]bool{}, waiting: map[string]time.Time{}}
}

// Run allocates until ctx ends. It returns when no write is under way any more.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	informer := c.Nodes.Informer()
	registration, err := informer.AddEventHandler(c.handlers(ctx))
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }() // it is there
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) || !c.seed(ctx) {
		return nil
	}
	workers.Run(ctx, c.queue, concurrency, "Node gets no pod CIDR for now, will try again", c.assign)
	return nil
}

// seed notes what all Nodes hold, by the word of the API server. Nothing may be given away
// before. It tries until ctx ends; then it is false.
func (c *Controller) seed(ctx context.Context) bool {
	backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryMin, 10*time.Second)
	for {
		err := c.readAll(ctx)
		if err == nil {
			c.mu.Lock()
			c.gone = nil
			c.mu.Unlock()
			return true
		}
		klog.FromContext(ctx).Info("Pod CIDRs are not allocated yet: the Nodes cannot be listed", "reason", err.Error())
		timer := time.NewTimer(backoff.When("list"))
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
}

func (c *Controller) readAll(ctx context.Context) error {
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.Client.CoreV1().Nodes().List(ctx, o)
	})
	p.PageSize = pageSize
	return p.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		if node, ok := o.(*corev1.Node); ok {
			c.observe(ctx, node)
		}
		return nil
	})
}

// handlers feed the queue and the ledger.
func (c *Controller) handlers(ctx context.Context) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.seen(ctx, obj) },
		UpdateFunc: func(old, obj any) {
			before, wasNode := old.(*corev1.Node)
			now, isNode := obj.(*corev1.Node)
			if wasNode && isNode && before.UID != now.UID { // another Node of the same name
				c.deleted(before)
			}
			if wasNode && isNode && before.UID == now.UID && len(before.Spec.PodCIDRs) == 0 && len(now.Spec.PodCIDRs) > 0 {
				c.given(now)
			}
			c.seen(ctx, obj)
		},
		DeleteFunc: func(obj any) {
			if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = t.Obj
			}
			if node, ok := obj.(*corev1.Node); ok {
				c.deleted(node)
			}
		},
	}
}

func (c *Controller) seen(ctx context.Context, obj any) {
	node, ok := obj.(*corev1.Node)
	switch {
	case !ok:
	case len(node.Spec.PodCIDRs) > 0:
		c.observe(ctx, node)
	default:
		c.queue.Add(node.Name)
	}
}

// given warns when somebody else has given a Node its CIDRs that had none.
func (c *Controller) given(node *corev1.Node) {
	cidrs := podCIDRs(node)
	c.mu.Lock()
	h := c.ledger.held[node.UID]
	// Before the first list ends, the leader before may have done it; see seed.
	others := c.gone == nil && !slices.Equal(h.cidrs, cidrs)
	c.mu.Unlock()
	if others {
		c.Recorder.Eventf(node, corev1.EventTypeWarning, eventOthers,
			"Pod CIDR %v was not allocated here: two allocators give one CIDR to two Nodes; turn off kube-controller-manager's (--controllers=*,-node-ipam-controller) or this one", cidrs)
	}
}

// observe notes what the Node holds.
func (c *Controller) observe(ctx context.Context, node *corev1.Node) {
	if len(node.Spec.PodCIDRs) == 0 {
		return
	}
	cidrs := podCIDRs(node)
	c.mu.Lock()
	var first, freed bool
	var outside, shared []netip.Prefix
	if !c.gone[node.UID] {
		first, outside, freed = c.ledger.observe(node.UID, cidrs)
		if first {
			shared = c.ledger.shared(cidrs)
		}
		delete(c.waiting, node.Name)
	}
	c.mu.Unlock()
	if len(outside) > 0 {
		c.Recorder.Eventf(node, corev1.EventTypeWarning, eventOutOfRange,
			"Pod CIDR %v lies outside of --cluster-cidr: it is left as it is", outside)
	}
	if len(shared) > 0 {
		c.Recorder.Eventf(node, corev1.EventTypeWarning, eventShared,
			"Pod CIDR %v overlaps what another Node or Services have: pods get addresses of each other; delete this Node and let it register again", shared)
	}
	if first {
		klog.FromContext(ctx).V(4).Info("Node has pod CIDRs", "node", klog.KObj(node), "podCIDRs", cidrs)
	}
	if freed {
		c.wake()
	}
}

// deleted frees what the Node held.
func (c *Controller) deleted(node *corev1.Node) {
	c.mu.Lock()
	freed := c.ledger.release(node.UID)
	delete(c.waiting, node.Name)
	if c.gone != nil {
		c.gone[node.UID] = true
	}
	c.mu.Unlock()
	if freed {
		c.wake()
	}
}

// wake tries the Nodes again that wait for a CIDR.
func (c *Controller) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.waiting {
		c.queue.Add(name)
	}
}

// podCIDRs are the CIDRs that the Node has.
func podCIDRs(node *corev1.Node) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(node.Spec.PodCIDRs))
	for _, text := range node.Spec.PodCIDRs {
		if cidr, ok := parseLegacy(text); ok {
			out = append(out, cidr)
		}
	}
	return out
}

// parseLegacy parses a CIDR of a Node, which may be written as only old versions allowed.
func parseLegacy(text string) (netip.Prefix, bool) {
	_, n, err := netutils.ParseCIDRSloppy(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(addr, ones), ok
}
