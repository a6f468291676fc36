package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/collectors"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

// Component is the source of the controller's events, the framework's.
const Component = "service-controller"

// LoadBalancers is what the controller needs of a cloud; cloud.LoadBalancers has the contract.
type LoadBalancers interface {
	Ensure(ctx context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error)
	UpdateMembers(ctx context.Context, spec *cloud.LoadBalancerSpec) error
	Delete(ctx context.Context, spec *cloud.LoadBalancerSpec) error
}

var _ LoadBalancers = cloud.LoadBalancers(nil)

// Config is what a Controller works with. All fields are required but those that say otherwise.
type Config struct {
	// LoadBalancers is the cloud, whose calls have deadlines.
	LoadBalancers LoadBalancers
	// Provider has the annotations and the traits by which Services are planned. Its abilities are
	// not used.
	Provider *cloud.Provider
	// Classes say which Services are served.
	Classes lb.Classes
	// Cluster owns the load balancers.
	Cluster cloud.Cluster
	// Client patches the status subresource of Services.
	Client corev1client.ServicesGetter
	// Services and Nodes must be running informers.
	Services coreinformers.ServiceInformer
	Nodes    coreinformers.NodeInformer
	// Recorder publishes events.
	Recorder record.EventRecorder
	// Workers is how many Services are worked on at a time.
	Workers int
	// SyncPeriod is the longest time after which a load balancer is verified, that is read
	// afresh from the cloud and repaired; the shortest is half of it. Zero turns that off.
	SyncPeriod time.Duration
	// NodeQuiet is how long Nodes must not change before a change of theirs takes effect,
	// NodeWait how long that is put off at most. Zero means 1 s and 5 s.
	NodeQuiet, NodeWait time.Duration
	// Metrics may be nil: counted into nowhere.
	Metrics *Metrics
	// Clock is for tests; nil is the real one.
	Clock clock.WithTicker
}

// Controller gives Services their load balancers. New makes one, Run runs it once.
type Controller struct {
	Config
	services corelisters.ServiceLister
	claims   lb.Claims
	nodes    *nodes
	queue    workqueue.TypedDelayingInterface[string]
	records  records
}

// New returns a Controller. Its queue works from now on; the end of Run ends it.
func New(c Config) (*Controller, error) {
	if c.Workers < 1 {
		return nil, fmt.Errorf("service controller: %d workers: at least one is needed", c.Workers)
	}
	if c.SyncPeriod < 0 {
		return nil, fmt.Errorf("service controller: sync period %s is negative", c.SyncPeriod)
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Metrics == nil {
		m, err := NewMetrics(nil)
		if err != nil {
			return nil, err
		}
		c.Metrics = m
	}
	if c.NodeQuiet <= 0 {
		c.NodeQuiet = time.Second
	}
	if c.NodeWait <= 0 {
		c.NodeWait = 5 * time.Second
	}
	return &Controller{
		Config:   c,
		services: c.Services.Lister(),
		claims:   lb.Claims{Classes: c.Classes, Cluster: c.Cluster, Provider: c.Provider},
		nodes:    newNodes(c.Nodes.Lister(), &c.Provider.LoadBalancing),
		records:  records{byKey: map[string]*entry{}},
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
			Name: "service", Clock: c.Clock,
		}),
	}, nil
}

// Run works until ctx ends. When it returns, no call to the cloud is under way.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	remove, err := c.watch(ctx)
	defer remove()
	if err != nil {
		return fmt.Errorf("service controller: %w", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if !cache.WaitForCacheSync(ctx.Done(), c.Services.Informer().HasSynced, c.Nodes.Informer().HasSynced) {
		return nil
	}
	if w, ok := c.LoadBalancers.(cloud.Waiting); ok {
		w.Attach(ctx, c.again)
	}
	for range c.Workers {
		wg.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	wg.Go(func() { c.followNodes(ctx) })
	<-ctx.Done()
	c.queue.ShutDown()
	return nil
}

// watch makes the informers feed the controller. remove, never nil, ends that.
func (c *Controller) watch(ctx context.Context) (remove func(), err error) {
	services, serr := c.Services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.enqueue(obj) },
		UpdateFunc: func(old, cur any) {
			// A Service that has just stopped to be of interest must be seen once more.
			c.noteAsked(old, cur)
			if !c.enqueue(cur) {
				c.enqueue(old)
			}
		},
		DeleteFunc: func(obj any) { c.enqueue(obj) },
	})
	nodes, nerr := c.Nodes.Informer().AddEventHandler(c.nodes.handler())
	return func() {
		logger := klog.FromContext(ctx)
		if serr == nil {
			if err := c.Services.Informer().RemoveEventHandler(services); err != nil {
				logger.Error(err, "Cannot stop watching Services")
			}
		}
		if nerr == nil {
			if err := c.Nodes.Informer().RemoveEventHandler(nodes); err != nil {
				logger.Error(err, "Cannot stop watching Nodes")
			}
		}
	}, errors.Join(serr, nerr)
}

// noteAsked notes when a Service of another type begins to ask for a load balancer.
func (c *Controller) noteAsked(old, cur any) {
	before, _ := old.(*corev1.Service)
	after, _ := cur.(*corev1.Service)
	if before != nil && after != nil && before.UID == after.UID && !lb.Wants(before) && lb.Wants(after) {
		now := c.Clock.Now()
		c.records.get(cache.MetaObjectToName(after).String()).asked.Store(&now)
	}
}

// enqueue makes a worker look at a Service if it may be of interest, and reports whether.
func (c *Controller) enqueue(obj any) bool {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	s, ok := obj.(*corev1.Service)
	if !ok || !lb.Wants(s) && !c.claims.Has(s) {
		return false
	}
	c.queue.Add(cache.MetaObjectToName(s).String())
	return true
}

// again has a worker look at once at a Service that waits for the cloud.
func (c *Controller) again(ref cloud.LoadBalancerRef) {
	key := cache.NewObjectName(ref.Namespace, ref.Name).String()
	if c.records.ended(key) {
		c.queue.Add(key)
	}
}

// next works on one Service and reports whether there will be more.
func (c *Controller) next(ctx context.Context) bool {
	key, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(key)
	if ctx.Err() != nil {
		return false
	}
	if again := c.sync(ctx, key); again > 0 {
		c.queue.AddAfter(key, again)
	}
	return true
}

// Metrics are the controller's numbers, under the framework's names where it has them. The
// queue's own are workqueue_*{name="service"}.
type Metrics struct {
	syncs           *prometheus.CounterVec
	nodeSyncErrors  prometheus.Counter
	nodeSyncLatency prometheus.Histogram
	hostLatency     prometheus.Histogram
	repairs         prometheus.Counter
	addressDelay    prometheus.Histogram
}

// NewMetrics makes the metrics and registers them with r; nil registers them nowhere. Those
// that r has already are shared.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	const subsystem = "service_controller"
	seconds := prometheus.ExponentialBuckets(.001, 4, 10)
	m := &Metrics{
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: "loadbalancer_sync_total",
			Help: "Work on load balancers by operation (ensure, verify, update_members, delete) and result (done, waiting, failed)."}, []string{"operation", "result"}),
		nodeSyncErrors: prometheus.NewCounter(prometheus.CounterOpts{Subsystem: subsystem, Name: "nodesync_error_total",
			Help: "Updates of members after a change of Nodes that failed."}),
		nodeSyncLatency: prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: subsystem, Name: "nodesync_latency_seconds",
			Help: "Time to work out which load balancers a change of Nodes concerns.", Buckets: seconds}),
		hostLatency: prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: subsystem, Name: "update_loadbalancer_host_latency_seconds",
			Help: "Time to update one load balancer's members.", Buckets: seconds}),
		repairs: prometheus.NewCounter(prometheus.CounterOpts{Subsystem: subsystem, Name: "repairs_total",
			Help: "Load balancers that others had changed and that were put right."}),
		addressDelay: prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: subsystem, Name: "loadbalancer_address_delay_seconds",
			Help:    "Time from the creation of a Service of type LoadBalancer, or its change to that type, to its first address.",
			Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800}}),
	}
	err := errors.Join(collectors.Register(r, &m.syncs), collectors.Register(r, &m.nodeSyncErrors), collectors.Register(r, &m.nodeSyncLatency),
		collectors.Register(r, &m.hostLatency), collectors.Register(r, &m.repairs), collectors.Register(r, &m.addressDelay))
	if err != nil {
		return nil, fmt.Errorf("service controller: %w", err)
	}
	for _, operation := range []string{"ensure", "verify", "update_members", operationDelete} {
		for _, result := range []string{resultDone, resultWaiting, resultFailed} {
			m.syncs.WithLabelValues(operation, result) // so that alerts have a zero to start from
		}
	}
	return m, nil
}
