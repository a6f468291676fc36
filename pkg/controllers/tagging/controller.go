package tagging

import (
	"context"
	"crypto/md5" //nolint:gosec // the sum is no secret: it is the existing manager's
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	// pause is the least time between passes, in which Nodes gather.
	pause = time.Second
	// retryFirst and retryMost are after how long what has failed comes again.
	retryFirst, retryMost = time.Second, 5 * time.Minute
)

// Config is what a Controller works with. All is required, but for Newborn.
type Config struct {
	Client kubernetes.Interface
	Nodes  coreinformers.NodeInformer
	// Instances, Label, Owns and Newborn are the provider's.
	Instances cloud.InstanceTags
	Label     string
	Owns      func(*corev1.Node) bool
	Newborn   time.Duration
	// Tags are set on each instance.
	Tags  map[string]string
	Clock clock.Clock
}

// Controller keeps the tags. New makes one, Run runs it once.
type Controller struct {
	Config
	sum string

	mu sync.Mutex
	// gone are the instances of Nodes that are gone and had the tags, by provider ID.
	gone map[string]retry
	// asked are Nodes whose instances may have the tags by now, though the label does not say so.
	asked map[types.UID]bool

	// failed are Nodes whose instances could not be tagged, by UID. Of the passes alone.
	failed map[types.UID]retry
}

// retry is how often something has failed, and when it comes again.
type retry struct {
	failures int
	at       time.Time
}

// New makes a Controller.
func New(c Config) *Controller {
	return &Controller{Config: c, sum: sum(c.Tags), gone: map[string]retry{}, asked: map[types.UID]bool{}, failed: map[types.UID]retry{}}
}

// sum is what the label says of tags, as the existing manager writes it: MD5 of key=value, sorted, with commas between.
func sum(tags map[string]string) string {
	var all []string
	for k, v := range tags {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	sum := md5.Sum([]byte(strings.Join(all, ","))) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// Run works until ctx ends and returns when nothing is under way any more.
func (c *Controller) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	informer := c.Nodes.Informer()
	registration, err := informer.AddEventHandler(c.handlers(changed))
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }() // it is there
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil
	}
	for ctx.Err() == nil {
		select { // this pass sees what has changed so far
		case <-changed:
		default:
		}
		c.rest(ctx, changed, c.pass(ctx))
	}
	return nil
}

// rest waits for the next pass, which is to be then, or when Nodes change.
func (c *Controller) rest(ctx context.Context, changed <-chan struct{}, then time.Time) {
	least := c.Clock.NewTimer(pause)
	defer least.Stop()
	select {
	case <-ctx.Done():
		return
	case <-least.C():
	}
	var next <-chan time.Time
	if !then.IsZero() {
		t := c.Clock.NewTimer(then.Sub(c.Clock.Now()))
		defer t.Stop()
		next = t.C()
	}
	select {
	case <-ctx.Done():
	case <-next:
	case <-changed:
	}
}

// handlers begin a pass for Nodes that lack tags, and note those that are gone.
func (c *Controller) handlers(changed chan<- struct{}) cache.ResourceEventHandler {
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	seen := func(obj any) {
		if n, ok := obj.(*corev1.Node); ok && c.lacks(n) {
			tell()
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: seen,
		UpdateFunc: func(before, now any) {
			a, ok := before.(*corev1.Node)
			b, is := now.(*corev1.Node)
			if ok && is && c.lacks(a) && c.lacks(b) && a.Spec.ProviderID == b.Spec.ProviderID {
				return // it was seen, and comes again by itself
			}
			seen(now)
		},
		DeleteFunc: func(obj any) {
			if late, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = late.Obj
			}
			n, ok := obj.(*corev1.Node)
			if ok && c.leaves(n) {
				tell()
			}
		},
	}
}

// leaves notes that a Node is gone, and reports whether its instance has tags to be removed.
func (c *Controller) leaves(n *corev1.Node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked[n.UID]
	delete(c.asked, n.UID)
	if n.Spec.ProviderID == "" || !c.Owns(n) || n.Labels[c.Label] != c.sum && !asked {
		return false
	}
	c.gone[n.Spec.ProviderID] = retry{}
	return true
}

// lacks reports whether the Node's instance is to be tagged.
func (c *Controller) lacks(n *corev1.Node) bool {
	return n.Spec.ProviderID != "" && c.Owns(n) && n.Labels[c.Label] != c.sum
}

// pass removes and sets what is due, and says when there is more to do; zero is when Nodes change.
func (c *Controller) pass(ctx context.Context) (next time.Time) {
	all, err := c.Nodes.Lister().List(labels.Everything())
	if err != nil {
		klog.FromContext(ctx).Error(err, "Nodes cannot be listed, will try again")
		return c.Clock.Now().Add(retryFirst)
	}
	return earlier(c.untag(ctx, all), c.tag(ctx, all))
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
