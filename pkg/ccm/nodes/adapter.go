package nodes

import (
	"context"
	"errors"
	"sync"
	"time"

	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
)

// Adapter lets the framework's controllers work with a decorated cloud. One lives as long
// as the controllers of one term of leadership; after End no call reaches the cloud.
type Adapter struct {
	provider *decorate.Provider
	nodes    corelisters.NodeLister
	calls    *calls

	instances *instances
}

// NewAdapter returns an adapter whose calls to the cloud end with ctx. monitorPeriod is that of the node lifecycle
// controller.
func NewAdapter(ctx context.Context, p *decorate.Provider, nodes corelisters.NodeLister, monitorPeriod time.Duration) *Adapter {
	a := &Adapter{provider: p, nodes: nodes, calls: newCalls(ctx)}
	a.instances = newInstances(a, monitorPeriod)
	return a
}

// End returns when no call to the cloud that needs the lease is under way any more, neither
// for a controller nor, shared by several, in the decorated cloud. The context of NewAdapter
// must have ended.
func (a *Adapter) End() {
	a.calls.end()
	a.provider.EndLease()
}

var _ cloudprovider.Interface = (*Adapter)(nil)

// Initialize implements cloudprovider.Interface. There is nothing to do: the provider's
// background work runs on every replica, leader or not.
func (*Adapter) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer implements cloudprovider.Interface: pkg/controllers/service needs none.
func (*Adapter) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// InstancesV2 implements cloudprovider.Interface.
func (a *Adapter) InstancesV2() (cloudprovider.InstancesV2, bool) { return a.instances, true }

// Routes implements cloudprovider.Interface: the route controller is our own.
func (*Adapter) Routes() (cloudprovider.Routes, bool) { return nil, false }

// Instances implements cloudprovider.Interface: InstancesV2 takes its place.
func (*Adapter) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones implements cloudprovider.Interface: InstancesV2 takes its place.
func (*Adapter) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters implements cloudprovider.Interface.
func (*Adapter) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// ProviderName implements cloudprovider.Interface.
func (a *Adapter) ProviderName() string { return a.provider.Name }

// HasClusterID implements cloudprovider.Interface: the UID of kube-system.
func (*Adapter) HasClusterID() bool { return true }

// errTermEnded is what calls get after the controllers' end.
var errTermEnded = errors.New("this replica no longer leads")

// calls are the calls of the framework's controllers that have not returned. The framework
// ends its controllers without waiting for their workers, and makes some calls with a
// context of its own; calls sees to it that none outlives the lease.
type calls struct {
	ctx context.Context // ends the calls; held because the framework passes its own

	mu    sync.Mutex
	ended bool
	open  sync.WaitGroup
}

func newCalls(ctx context.Context) *calls { return &calls{ctx: ctx} }

// begin returns ctx, ending also with the term, and what to call at the end.
func (c *calls) begin(ctx context.Context) (context.Context, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.ctx.Err() != nil {
		return nil, nil, errTermEnded
	}
	c.open.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(errTermEnded) })
	return ctx, func() {
		stop()
		cancel(nil)
		c.open.Done()
	}, nil
}

// end refuses further calls and returns when those under way have returned. The context of
// newCalls must have ended.
func (c *calls) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.open.Wait()
}
