package kubeletserving

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	certinformers "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/controllers/workers"
	"github.com/isthmus-cloud/isthmus/pkg/tracing"
)

// Name is the controller's name.
const Name = "kubelet-serving-csr-approver-controller"

const (
	// askers is how many Nodes are worked on at a time: they mostly wait for the cloud, which is asked about all of them at once.
	askers = 100
	// spacing is the least time between two requests of a Node that are looked into: a kubelet waits for one of them
	// some minutes, and who floods gets no more than the newest.
	spacing = 10 * time.Second
	// retryMost bounds the pause before a request is looked into again. The first is spacing.
	retryMost = 5 * time.Minute
	// lifetime is how old a request may be: its kubelet has long made another.
	lifetime = time.Hour
	// byNode is the index of the pending requests by the name of the Node that asks.
	byNode = "node"
)

// Reasons of events. The comment is what docs/reference/events.md says of it.
const (
	// Warning on CertificateSigningRequest: it was not approved, and stays for somebody else to decide; Normal where its Node is another
	// cloud's. Next: mend what the event says, or decide by hand.
	reasonNotApproved = "ServingCertificateNotApproved"
)

// Config is what a Controller works with; all of it is required.
type Config struct {
	Client kubernetes.Interface
	// Nodes has synced when Run is called.
	Nodes corelisters.NodeLister
	// Owns reports whether the Node is the cloud's.
	Owns func(*corev1.Node) bool
	// Find asks the cloud now for the instance that the Node's provider ID names.
	Find     Find
	Recorder record.EventRecorder
	Metrics  *Metrics
	Clock    clock.WithTicker
}

// Controller approves. New makes one, Run runs it once.
type Controller struct {
	Config
	// requests has who asks, and when, but not for what: that may be large.
	requests cache.SharedIndexInformer
	// queue has names of Nodes.
	queue workqueue.TypedRateLimitingInterface[string]

	mu sync.Mutex
	// looked is when a request of a Node was looked into, for spacing; older ones are dropped at swept.
	looked map[string]time.Time
	swept  time.Time
}

// New makes a Controller.
func New(c Config) *Controller {
	return &Controller{
		Config: c, looked: map[string]time.Time{}, swept: c.Clock.Now(),
		requests: certinformers.NewFilteredCertificateSigningRequestInformer(c.Client, 0, cache.Indexers{byNode: pendingNode}, func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeletServingSignerName).String()
		}),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](spacing, retryMost),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "kubelet_serving_csr_approver", Clock: c.Clock}),
	}
}

// Run approves until ctx ends. It returns when no write is under way any more.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	if err := c.requests.SetTransform(trim); err != nil {
		return fmt.Errorf("watch certificatesigningrequests: %w", err)
	}
	seen := func(obj any) {
		if csr, ok := obj.(*certificatesv1.CertificateSigningRequest); ok && isPending(csr) && nodeOf(csr) != "" {
			c.queue.Add(nodeOf(csr))
		}
	}
	registration, err := c.requests.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: seen})
	if err != nil {
		return fmt.Errorf("watch certificatesigningrequests: %w", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { c.requests.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil
	}
	workers.Run(ctx, c.queue, askers, "A kubelet's serving certificate is not approved yet, will try again", c.sync)
	return nil
}

// trim keeps of a request what tells who asks, and whether it is decided.
func trim(obj any) (any, error) {
	csr, ok := obj.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return obj, nil
	}
	small := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: csr.Name, UID: csr.UID, ResourceVersion: csr.ResourceVersion, CreationTimestamp: csr.CreationTimestamp},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: csr.Spec.SignerName, Username: csr.Spec.Username},
	}
	if !isPending(csr) {
		small.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{}}
	}
	return small, nil
}

// pendingNode is the index byNode.
func pendingNode(obj any) ([]string, error) {
	csr, ok := obj.(*certificatesv1.CertificateSigningRequest)
	if !ok || !isPending(csr) || nodeOf(csr) == "" {
		return nil, nil
	}
	return []string{nodeOf(csr)}, nil
}

// sync looks into the newest request of the Node of this name, if there is a pending one.
func (c *Controller) sync(ctx context.Context, node string) error {
	newest, err := c.newest(node)
	if err != nil || newest == nil {
		return err
	}
	if wait := c.wait(node); wait > 0 {
		c.queue.AddAfter(node, wait)
		return nil
	}
	csr, err := c.Client.CertificatesV1().CertificateSigningRequests().Get(ctx, newest.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read certificatesigningrequest %s: %w", newest.Name, err)
	}
	if csr.UID != newest.UID || !isPending(csr) || nodeOf(csr) != node {
		return nil
	}
	ctx, span := tracing.Start(ctx, "kubelet serving certificate")
	defer span.End()
	span.Set(tracing.Node, node)
	v := c.judge(ctx, node, csr)
	span.Set(tracing.Outcome, v.result)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if v.result == resultApproved {
		return c.approve(ctx, csr, v)
	}
	c.Metrics.requests.WithLabelValues(v.result).Inc()
	c.Recorder.Event(csr, v.eventType(), reasonNotApproved, "Left pending: "+v.message)
	if v.again {
		return errors.New(v.message)
	}
	return nil
}

// newest returns the newest pending request of the Node, which is the one that its kubelet waits for; nil where there is
// none that is young enough.
func (c *Controller) newest(node string) (*certificatesv1.CertificateSigningRequest, error) {
	all, err := c.requests.GetIndexer().ByIndex(byNode, node)
	if err != nil {
		return nil, fmt.Errorf("requests of node %s: %w", node, err)
	}
	var newest *certificatesv1.CertificateSigningRequest
	for _, obj := range all {
		csr, ok := obj.(*certificatesv1.CertificateSigningRequest)
		if !ok || c.Clock.Since(csr.CreationTimestamp.Time) > lifetime {
			continue
		}
		if newest == nil || newest.CreationTimestamp.Before(&csr.CreationTimestamp) {
			newest = csr
		}
	}
	return newest, nil
}

// wait returns how long the Node has to wait until a request of it is looked into; zero is now, which is noted.
func (c *Controller) wait(node string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	if now.Sub(c.swept) > spacing {
		for name, at := range c.looked {
			if now.Sub(at) >= spacing {
				delete(c.looked, name)
			}
		}
		c.swept = now
	}
	if at, ok := c.looked[node]; ok && now.Sub(at) < spacing {
		return spacing - now.Sub(at)
	}
	c.looked[node] = now
	return 0
}

// approve writes that the request is approved. It fails where somebody else has decided, or has changed it, since it was read.
func (c *Controller) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, v verdict) error {
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "InstanceAddresses", Message: v.message,
		LastUpdateTime: metav1.NewTime(c.Clock.Now()),
	})
	_, err := c.Client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("approve certificatesigningrequest %s: %w", csr.Name, err)
	}
	c.Metrics.requests.WithLabelValues(resultApproved).Inc()
	klog.FromContext(ctx).Info("Approved a kubelet's serving certificate", "node", nodeOf(csr), "certificatesigningrequest", csr.Name, "reason", v.message)
	return nil
}
