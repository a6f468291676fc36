package integration

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/test/inprocess"
)

// fakeCloud is a cloud with what OpenStack lacks: routes lead to instances, one from a destination,
// and become blackholes with them; instances have pod CIDRs; and credentials and the
// cluster's name are in the cluster.
type fakeCloud struct {
	provider cloud.Provider // what a test adds to it
	run      func(ctx context.Context, kube cloud.Kube) error

	mu        sync.Mutex
	instances map[string]cloud.Instance // by name
	finds     int
	gets      map[string]int // by the Node's name
	routes    map[netip.Prefix]cloud.Route
	ids       map[string]bool // Cluster.ID of those who changed routes
}

func newFakeCloud(names ...string) *fakeCloud {
	f := &fakeCloud{instances: map[string]cloud.Instance{}, gets: map[string]int{}, routes: map[netip.Prefix]cloud.Route{}, ids: map[string]bool{}}
	for k, name := range names {
		f.instances[name] = cloud.Instance{Name: name, ProviderID: "fake:///" + name, Type: "small",
			PodCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(100 + k), 0}), 24)}}
	}
	return f
}

// do does it under the lock.
func (f *fakeCloud) do(it func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	it()
}

// make implements cloud.Factory.
func (f *fakeCloud) make(_ context.Context, _ string, o cloud.Options) (*cloud.Provider, []string, error) {
	p := f.provider
	p.Name, p.Instances, p.Routes = "fake", f, fakeRoutes{f}
	p.Routing = cloud.RouteTraits{ToInstance: true, OneHop: true}
	if p.Ready == nil {
		p.Ready = func(context.Context) error { return nil }
	}
	if len(p.KubeObjects) > 0 {
		useKube(&p, o.Kube)
		p.Run = func(ctx context.Context) error { return f.run(ctx, o.Kube) }
	}
	return &p, nil, nil
}

// Find implements cloud.Instances.
func (f *fakeCloud) Find(_ context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finds++
	out := make([]cloud.Result[*cloud.Instance], len(refs))
	for k, ref := range refs {
		out[k].Value, out[k].Err = f.find(ref)
	}
	return out
}

// Get implements cloud.Instances.
func (f *fakeCloud) Get(_ context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gets[ref.NodeName]++
	return f.find(ref)
}

func (f *fakeCloud) find(ref cloud.InstanceRef) (*cloud.Instance, error) {
	for _, i := range f.instances {
		if ref.ProviderID == i.ProviderID || ref.ProviderID == "" && ref.NodeName == i.Name {
			return &i, nil
		}
	}
	return nil, cloud.Errorf(cloud.KindNotFound, "no instance %s", ref.ProviderID)
}

// terminate ends an instance: its route leads nowhere from now on.
func (f *fakeCloud) terminate(name string) {
	f.do(func() {
		for at, r := range f.routes {
			if r.Target == f.instances[name].ProviderID {
				f.routes[at] = cloud.Route{Destination: at, Blackhole: true}
			}
		}
		delete(f.instances, name)
	})
}

// table is a copy of the routes.
func (f *fakeCloud) table() map[netip.Prefix]cloud.Route {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.routes)
}

// fakeRoutes are its routes. It keeps no record whose they are.
type fakeRoutes struct{ f *fakeCloud }

// List implements cloud.Routes.
func (r fakeRoutes) List(context.Context, cloud.Cluster) ([]cloud.Route, error) {
	return slices.Collect(maps.Values(r.f.table())), nil
}

// Apply implements cloud.Routes.
func (r fakeRoutes) Apply(_ context.Context, cluster cloud.Cluster, add, remove []cloud.Route) []error {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	r.f.ids[cluster.ID] = true
	errs := make([]error, len(add)+len(remove))
	for k, n := range add {
		switch old, ok := r.f.routes[n.Destination]; {
		case n.Blackhole || n.Target == "" || n.NextHop.IsValid():
			errs[k] = cloud.Errorf(cloud.KindInvalid, "%+v leads to no instance", n)
		case ok && !old.Blackhole && old.Target != n.Target:
			errs[k] = cloud.Errorf(cloud.KindConflict, "there is another route to %s", n.Destination)
		default:
			r.f.routes[n.Destination] = cloud.Route{Destination: n.Destination, Target: n.Target}
		}
	}
	for _, n := range remove {
		if r.f.routes[n.Destination].Hop() == n.Hop() {
			delete(r.f.routes, n.Destination)
		}
	}
	return errs
}

// startFake runs the cloud controller manager with f until the test's end or Stop.
func (c *cluster) startFake(f *fakeCloud, args ...string) *inprocess.Manager {
	c.t.Helper()
	return inprocess.Start(c.t, c.fakeOptions(f, args))
}

func (c *cluster) fakeOptions(f *fakeCloud, args []string) inprocess.Options {
	return inprocess.Options{
		Factory: f.make, Kubeconfig: c.kubeconfig,
		Decorate: caller.Options{Clock: clock.RealClock{}, Reads: caller.Policy{BackoffBase: time.Millisecond}},
		Args: append([]string{"--cluster-cidr=10.244.0.0/16", "--leader-elect=false", "--node-monitor-period=100ms",
			"--route-reconciliation-period=200ms"}, args...),
	}
}

// Objects of the cluster that fakeCloud uses where a test has it so.
const (
	fakeSecret = "fake-credentials"
	fakeMap    = "fake-cluster-id"
)

// errNoKey is why the cloud is not ready.
var errNoKey = errors.New("the Secret has no key")

// useKube has p take its key from the Secret and the cluster's name from the ConfigMap.
func useKube(p *cloud.Provider, kube cloud.Kube) {
	namespace := p.KubeObjects[0].Namespace
	p.Ready = func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ready := errNoKey
		err := kube.WatchSecret(ctx, namespace, fakeSecret, func(data map[string][]byte) {
			if len(data["key"]) > 0 {
				ready = nil
				cancel()
			}
		})
		return errors.Join(err, ready)
	}
	p.Identify = func(ctx context.Context, cluster cloud.Cluster) (string, error) {
		data, err := kube.ConfigMap(ctx, namespace, fakeMap, map[string]string{"id": "made-of-" + cluster.UID})
		return data["id"], err
	}
}
