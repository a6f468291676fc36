package instancecache

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeInstances is a cloud of instances at the level of the contract, with counters.
type fakeInstances struct {
	latency time.Duration // of every call; honors ctx

	mu      sync.Mutex
	servers map[string]*cloud.Instance // by name
	finds   [][]cloud.InstanceRef
	gets    []cloud.InstanceRef
	active  int // Gets now
	peak    int // most Gets at a time
	findErr func(cloud.InstanceRef) error
	getErr  func(cloud.InstanceRef) error
	hidden  bool // Find has nothing
}

func newFakeInstances(n int) *fakeInstances {
	f := &fakeInstances{servers: map[string]*cloud.Instance{}}
	for k := range n {
		f.add(fmt.Sprintf("node-%d", k))
	}
	return f
}

func (f *fakeInstances) add(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers[name] = &cloud.Instance{Name: name, ProviderID: "fake:///id-of-" + name, MachineIDs: []string{"id-of-" + name}}
}

func (f *fakeInstances) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.servers, name)
}

// set changes the fake under its lock.
func (f *fakeInstances) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeInstances) find(ref cloud.InstanceRef) (*cloud.Instance, error) {
	name := ref.NodeName
	if ref.ProviderID != "" {
		name = strings.TrimPrefix(ref.ProviderID, "fake:///id-of-")
	}
	if s := f.servers[name]; s != nil {
		return s, nil
	}
	return nil, cloud.Errorf(cloud.KindNotFound, "no server %s", name)
}

func (f *fakeInstances) Find(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	f.mu.Lock()
	f.finds = append(f.finds, refs)
	latency := f.latency
	f.mu.Unlock()
	err := backoff.Sleep(ctx, clock.RealClock{}, latency)
	f.mu.Lock()
	defer f.mu.Unlock()
	results := make([]cloud.Result[*cloud.Instance], len(refs))
	for k, ref := range refs {
		switch {
		case err != nil:
			results[k].Err = err
		case f.findErr != nil && f.findErr(ref) != nil:
			results[k].Err = f.findErr(ref)
		case f.hidden:
			results[k].Err = cloud.Errorf(cloud.KindNotFound, "not in the list")
		default:
			results[k].Value, results[k].Err = f.find(ref)
		}
	}
	return results
}

func (f *fakeInstances) Get(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	f.mu.Lock()
	f.gets = append(f.gets, ref)
	f.active++
	f.peak = max(f.peak, f.active)
	latency := f.latency
	f.mu.Unlock()
	err := backoff.Sleep(ctx, clock.RealClock{}, latency)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active--
	if err != nil {
		return nil, err
	}
	if f.getErr != nil {
		if err := f.getErr(ref); err != nil {
			return nil, err
		}
	}
	return f.find(ref)
}

// calls returns the numbers of Finds and Gets so far.
func (f *fakeInstances) calls() (finds, gets int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.finds), len(f.gets)
}

func (f *fakeInstances) wantCalls(t *testing.T, finds, gets int) {
	t.Helper()
	if gotFinds, gotGets := f.calls(); gotFinds != finds || gotGets != gets {
		t.Errorf("cloud was asked with %d Find and %d Get, want %d and %d", gotFinds, gotGets, finds, gets)
	}
}

// nodes is a population of node-0 … node-(n-1) that changes as nodes are initialized.
type nodes struct {
	mu   sync.Mutex
	refs []cloud.InstanceRef
}

func newNodes(n int) *nodes {
	p := &nodes{}
	for k := range n {
		p.refs = append(p.refs, cloud.InstanceRef{NodeName: fmt.Sprintf("node-%d", k)})
	}
	return p
}

func (p *nodes) list() []cloud.InstanceRef {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]cloud.InstanceRef(nil), p.refs...)
}

func (p *nodes) initialize(k int, providerID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refs[k].ProviderID = providerID
}

func (p *nodes) register(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refs = append(p.refs, cloud.InstanceRef{NodeName: name})
}

func (p *nodes) keep(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refs = p.refs[:n]
}

// cached makes a Cache of f that the end of the test closes.
func cached(t testing.TB, f cloud.Instances, o caller.Options) *Cache {
	t.Helper()
	call, err := caller.New("fake", o)
	if err != nil {
		t.Fatal(err)
	}
	c := New(f, call)
	t.Cleanup(c.Close)
	return c
}

func newMetrics(t *testing.T) *caller.Metrics {
	t.Helper()
	m, err := caller.NewMetrics(prometheus.NewPedanticRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func wantMetric(t *testing.T, metric prometheus.Collector, want float64) {
	t.Helper()
	if got := testutil.ToFloat64(metric); got != want {
		t.Errorf("metric is %v, want %v", got, want)
	}
}
