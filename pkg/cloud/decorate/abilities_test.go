package decorate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ready(context.Context) error { return nil }

// noInstances is a cloud without any.
type noInstances struct{ cloud.Instances }

// decorated makes a Provider of f that the end of the test closes.
func decorated(t testing.TB, p cloud.Provider, o caller.Options) *Provider {
	t.Helper()
	p.Name, p.Ready, p.Instances = "fake", ready, noInstances{}
	d, err := New(&p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func TestNewKeepsWhatIsMissing(t *testing.T) {
	d := decorated(t, cloud.Provider{Annotations: []cloud.Annotation{{Name: "a"}}}, caller.Options{})
	if d.LoadBalancers != nil || d.Routes != nil || d.Volumes != nil || d.Run != nil {
		t.Error("an ability that the cloud lacks is there")
	}
	if d.CheckLoadBalancer != nil {
		t.Error("a check that the cloud lacks is there")
	}
	if d.Instances != nil || d.Nodes == nil || len(d.Annotations) != 1 || d.Name != "fake" {
		t.Errorf("got %+v", d.Provider)
	}
	for name, p := range map[string]*cloud.Provider{
		"nil": nil, "no name": {Instances: noInstances{}, Ready: ready},
		"no instances": {Name: "x", Ready: ready}, "no ready": {Name: "x", Instances: noInstances{}},
	} {
		if _, err := New(p, caller.Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// fakeVolumes knows the volumes whose ID is in have.
type fakeVolumes struct {
	latency time.Duration
	mu      sync.Mutex
	have    map[string]bool
	hidden  map[string]bool // from Find
	finds   [][]cloud.VolumeRef
	gets    []cloud.VolumeRef
	active  int // finds now
	peak    int // most finds at a time
}

func (f *fakeVolumes) Sources() []cloud.VolumeSource {
	return []cloud.VolumeSource{{Field: "fake", NameField: "name"}}
}

func (f *fakeVolumes) Ref(pv *corev1.PersistentVolume) (cloud.VolumeRef, bool, error) {
	return cloud.VolumeRef{ID: pv.Name}, true, nil
}

func (f *fakeVolumes) Find(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finds = append(f.finds, refs)
	results := make([]cloud.Result[*cloud.Volume], len(refs))
	for k, ref := range refs { // what holds when the read begins
		switch {
		case ref.ID == "broken":
		case f.have[ref.ID]:
			results[k].Value = &cloud.Volume{ID: ref.ID}
		default:
			results[k].Err = cloud.Errorf(cloud.KindNotFound, "no volume %s", ref.ID)
		}
	}
	f.active++
	f.peak = max(f.peak, f.active)
	f.mu.Unlock()
	err := backoff.Sleep(ctx, clock.RealClock{}, f.latency)
	f.mu.Lock()
	f.active--
	if err != nil {
		return slices.Repeat([]cloud.Result[*cloud.Volume]{{Err: err}}, len(refs))
	}
	return results
}

// Get reads one, with the latency of all reads.
func (f *fakeVolumes) Get(ctx context.Context, ref cloud.VolumeRef) (*cloud.Volume, error) {
	f.mu.Lock()
	f.gets = append(f.gets, ref)
	have := f.have[ref.ID] || f.hidden[ref.ID]
	f.mu.Unlock()
	if err := backoff.Sleep(ctx, clock.RealClock{}, f.latency); err != nil {
		return nil, err
	}
	if !have {
		return nil, cloud.Errorf(cloud.KindNotFound, "no volume %s", ref.ID)
	}
	return &cloud.Volume{ID: ref.ID}, nil
}

// What a batch did not have is read directly before anybody hears that it does not exist.
func TestVolumesThatABatchLacksAreReadDirectly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeVolumes{have: map[string]bool{"listed": true}, hidden: map[string]bool{"hidden": true}}
		d := decorated(t, cloud.Provider{Volumes: f}, caller.Options{})
		r := d.Volumes.Find(t.Context(), []cloud.VolumeRef{{ID: "hidden"}, {ID: "listed"}, {ID: "gone"}})
		if r[0].Err != nil || r[0].Value.ID != "hidden" || r[1].Err != nil || !cloud.IsNotFound(r[2].Err) {
			t.Errorf("got %v", r)
		}
		if len(f.finds) != 1 || len(f.gets) != 2 {
			t.Errorf("%d batches and %d direct reads, want 1 and 2", len(f.finds), len(f.gets))
		}
	})
}

func TestVolumesAreReadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeVolumes{have: map[string]bool{}, latency: time.Second}
		d := decorated(t, cloud.Provider{Volumes: f}, caller.Options{})
		var wg sync.WaitGroup
		for k := range 50 {
			for range 2 {
				id := fmt.Sprintf("v%d", k)
				f.have[id] = k != 7
				wg.Go(func() {
					r := d.Volumes.Find(t.Context(), []cloud.VolumeRef{{ID: id}, {ID: "v1"}})
					if len(r) != 2 || r[1].Err != nil || r[1].Value.ID != "v1" {
						t.Errorf("got %v", r)
					} else if k == 7 && !cloud.IsNotFound(r[0].Err) || k != 7 && (r[0].Err != nil || r[0].Value.ID != id) {
						t.Errorf("%s: got %v", id, r[0])
					}
				})
			}
		}
		wg.Wait()
		if len(f.finds) != 1 || len(f.finds[0]) != 50 {
			t.Errorf("asked %v", f.finds)
		}
		if len(d.Volumes.Sources()) != 1 {
			t.Error("Sources is not the provider's")
		}
		if ref, ok, err := d.Volumes.Ref(&corev1.PersistentVolume{}); ref.ID != "" || !ok || err != nil {
			t.Error("Ref is not the provider's")
		}
		if got := d.Volumes.Find(t.Context(), nil); len(got) != 0 || len(f.finds) != 1 {
			t.Errorf("nothing asked: got %v", got)
		}
	})
}

// A "not found" that was true when a read began does not answer who asks later.
func TestVolumesNotFoundIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeVolumes{have: map[string]bool{}, latency: 10 * time.Second}
		d := decorated(t, cloud.Provider{Volumes: f}, caller.Options{})
		refs := []cloud.VolumeRef{{ID: "v"}}
		var wg sync.WaitGroup
		wg.Go(func() {
			if r := d.Volumes.Find(t.Context(), refs); !cloud.IsNotFound(r[0].Err) {
				t.Errorf("got %v", r)
			}
		})
		time.Sleep(15 * time.Second) // in its direct read
		f.mu.Lock()
		f.have["v"] = true
		f.mu.Unlock()
		if r := d.Volumes.Find(t.Context(), refs); r[0].Err != nil {
			t.Errorf("got %v", r)
		}
		wg.Wait()
	})
}

func TestVolumesErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeVolumes{latency: time.Second}
		d := decorated(t, cloud.Provider{Volumes: f}, caller.Options{Reads: caller.Policy{Attempts: 1}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if r := d.Volumes.Find(ctx, []cloud.VolumeRef{{ID: "v"}}); r[0].Err == nil || cloud.IsNotFound(r[0].Err) {
			t.Errorf("deadline: got %v", r)
		}
		if r := d.Volumes.Find(t.Context(), []cloud.VolumeRef{{ID: "broken"}}); r[0].Err == nil || cloud.IsNotFound(r[0].Err) {
			t.Errorf("neither volume nor error: got %v", r)
		}
		d.Close()
		if r := d.Volumes.Find(t.Context(), []cloud.VolumeRef{{ID: "v"}}); r[0].Err == nil || cloud.IsNotFound(r[0].Err) {
			t.Errorf("closed: got %v", r)
		}
	})
}

// fakeBalancers notes calls that overlap.
type fakeBalancers struct {
	mu      sync.Mutex
	active  map[string]int
	peak    int // over all
	overlap bool
	err     error
	empty   bool
	calls   int
}

func (f *fakeBalancers) call(ref cloud.LoadBalancerRef) (*cloud.LoadBalancerStatus, error) {
	key := ref.Namespace + "/" + ref.Name
	f.mu.Lock()
	f.calls++
	f.active[key]++
	f.overlap = f.overlap || f.active[key] > 1
	f.peak = max(f.peak, len(f.active))
	f.mu.Unlock()
	time.Sleep(time.Second)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.active[key]--; f.active[key] == 0 {
		delete(f.active, key)
	}
	if f.empty {
		return nil, nil
	}
	return &cloud.LoadBalancerStatus{}, f.err
}

func (f *fakeBalancers) Ensure(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	return f.call(spec.LoadBalancerRef)
}

func (f *fakeBalancers) UpdateMembers(_ context.Context, spec *cloud.LoadBalancerSpec) error {
	_, err := f.call(spec.LoadBalancerRef)
	return err
}

func (f *fakeBalancers) Delete(_ context.Context, spec *cloud.LoadBalancerSpec) error {
	_, err := f.call(spec.LoadBalancerRef)
	return err
}

func TestLoadBalancerCallsFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBalancers{active: map[string]int{}}
		d := decorated(t, cloud.Provider{LoadBalancers: f}, caller.Options{})
		var wg sync.WaitGroup
		began := time.Now()
		for k := range 10 {
			spec := &cloud.LoadBalancerSpec{LoadBalancerRef: cloud.LoadBalancerRef{Namespace: "default", Name: fmt.Sprint(k)}}
			for n, call := range []func() error{
				func() error { _, err := d.LoadBalancers.Ensure(t.Context(), spec); return err },
				func() error { _, err := d.LoadBalancers.Ensure(t.Context(), spec); return err },
				func() error { return d.LoadBalancers.UpdateMembers(t.Context(), spec) },
				func() error { return d.LoadBalancers.Delete(t.Context(), spec) },
			} {
				wg.Go(func() {
					if err := call(); err != nil {
						t.Errorf("call %d: %v", n, err)
					}
				})
			}
		}
		wg.Wait()
		if f.overlap || f.peak != 10 {
			t.Errorf("overlap %v, %d load balancers at a time, want false and 10", f.overlap, f.peak)
		}
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("took %v", took)
		}
		if n := d.LoadBalancers.(*loadBalancers).keys.Len(); n != 0 {
			t.Errorf("%d keys left", n)
		}
	})
}

func TestLoadBalancerErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBalancers{active: map[string]int{}}
		d := decorated(t, cloud.Provider{LoadBalancers: f}, caller.Options{})
		spec := &cloud.LoadBalancerSpec{LoadBalancerRef: cloud.LoadBalancerRef{Namespace: "default", Name: "web"}}
		for _, test := range []struct {
			kind  cloud.Kind
			calls int
		}{{cloud.KindConflict, 1}, {cloud.KindRetryAfter, 1}, {cloud.KindUnknown, 3}} {
			f.calls, f.err = 0, &cloud.Error{Kind: test.kind, RetryAfter: time.Second, Err: errors.New("no")}
			status, err := d.LoadBalancers.Ensure(t.Context(), spec)
			if (status != nil) != (test.kind == cloud.KindRetryAfter) || cloud.KindOf(err) != test.kind || cloud.RetryAfter(err) != time.Second || f.calls != test.calls {
				t.Errorf("%v: got %v, %v after %d calls", test.kind, status, err, f.calls)
			}
		}
		f.err, f.empty = nil, true // neither status nor error
		if _, err := d.LoadBalancers.Ensure(t.Context(), spec); err == nil || cloud.IsNotFound(err) {
			t.Errorf("neither status nor error: got %v", err)
		}
		f.empty = false
		go func() { _ = d.LoadBalancers.Delete(t.Context(), spec) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := d.LoadBalancers.UpdateMembers(ctx, spec); err == nil || cloud.IsNotFound(err) {
			t.Errorf("waiting for its turn: got %v", err)
		}
		time.Sleep(time.Second)
	})
}

// fakeRoutes is a table of routes.
type fakeRoutes struct {
	table   map[netip.Prefix]cloud.Route
	applies [][2]int                         // numbers of added and removed
	fail    func(n int, r cloud.Route) error // n counts Applies from 1
	short   bool                             // answer less than asked
}

func (f *fakeRoutes) List(context.Context, cloud.Cluster) ([]cloud.Route, error) {
	return slices.Collect(maps.Values(f.table)), nil
}

func (f *fakeRoutes) Apply(_ context.Context, _ cloud.Cluster, add, remove []cloud.Route) []error {
	f.applies = append(f.applies, [2]int{len(add), len(remove)})
	n := len(f.applies)
	if f.short {
		return nil
	}
	errs := make([]error, len(add)+len(remove))
	for k, r := range append(slices.Clone(add), remove...) {
		if f.fail != nil {
			errs[k] = f.fail(n, r)
		}
		switch {
		case errs[k] != nil:
		case k < len(add):
			f.table[r.Destination] = r
		case f.table[r.Destination].NextHop == r.NextHop:
			delete(f.table, r.Destination)
		}
	}
	return errs
}

func route(k int) cloud.Route {
	return cloud.Route{Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(k), 0}), 24),
		NextHop: netip.AddrFrom4([4]byte{192, 168, 0, byte(k)}), Node: cloud.InstanceRef{NodeName: fmt.Sprint(k)}}
}

var cluster = cloud.Cluster{Name: "kubernetes", UID: "u", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}

func TestRoutesRetryOnlyWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRoutes{table: map[netip.Prefix]cloud.Route{}}
		f.fail = func(n int, r cloud.Route) error {
			switch {
			case n == 1 && (r == route(1) || r == route(9)):
				return errors.New("connection reset")
			case r == route(10):
				return cloud.Errorf(cloud.KindConflict, "somebody else's")
			}
			return nil
		}
		d := decorated(t, cloud.Provider{Routes: f}, caller.Options{})
		errs := d.Routes.Apply(t.Context(), cluster, []cloud.Route{route(0), route(1), route(2)}, []cloud.Route{route(8), route(9), route(10)})
		if diff := cmp.Diff([][2]int{{3, 3}, {1, 1}}, f.applies); diff != "" || errors.Join(errs[:5]...) != nil || len(errs) != 6 || cloud.KindOf(errs[5]) != cloud.KindConflict {
			t.Errorf("%v, sets (-want +got):\n%s", errs, diff)
		}
		if got := d.Routes.Apply(t.Context(), cluster, nil, nil); len(got) != 0 || len(f.applies) != 2 {
			t.Errorf("nothing to apply: %v", got)
		}
		if list, err := d.Routes.List(t.Context(), cluster); err != nil || len(list) != 3 {
			t.Errorf("listed %v, %v", list, err)
		}
		f.short = true
		if errs := d.Routes.Apply(t.Context(), cluster, []cloud.Route{route(1)}, nil); len(errs) != 1 || errs[0] == nil {
			t.Errorf("no answers: got %v", errs)
		}
	})
}

// TestCallsStartAtZero: an alert on a rate sees the first failure of any operation, too.
func TestCallsStartAtZero(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	m, err := caller.NewMetrics(r)
	if err != nil {
		t.Fatal(err)
	}
	series := func() (out []string) {
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, s := range f.GetMetric() {
				if f.GetName() != "isthmus_cloud_call_duration_seconds" { // its kinds come with the first of each
					out = append(out, fmt.Sprint(f.GetName(), s.GetLabel()))
				}
			}
		}
		return out
	}
	d := decorated(t, cloud.Provider{LoadBalancers: noLoadBalancers{}, Routes: noRoutes{}, Volumes: &fakeVolumes{}}, caller.Options{Metrics: m})
	before := series()
	_, _ = d.LoadBalancers.Ensure(t.Context(), &cloud.LoadBalancerSpec{})
	_ = d.LoadBalancers.UpdateMembers(t.Context(), &cloud.LoadBalancerSpec{})
	_ = d.LoadBalancers.Delete(t.Context(), &cloud.LoadBalancerSpec{})
	_, _ = d.Routes.List(t.Context(), cloud.Cluster{})
	_ = d.Routes.Apply(t.Context(), cloud.Cluster{}, []cloud.Route{{}}, nil)
	_ = d.Volumes.Find(t.Context(), []cloud.VolumeRef{{ID: "a"}})
	_, _ = d.Nodes.Lookup(t.Context(), cloud.InstanceRef{NodeName: "a"}, 0, nil)
	if diff := cmp.Diff(before, series()); diff != "" {
		t.Errorf("series that were not there from the start:\n%s", diff)
	}
}

var errNo = cloud.Errorf(cloud.KindDenied, "no")

// noLoadBalancers, noRoutes and noInstances are of a cloud that refuses all.
type (
	noLoadBalancers struct{}
	noRoutes        struct{}
)

func (noLoadBalancers) Ensure(context.Context, *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	return nil, errNo
}
func (noLoadBalancers) UpdateMembers(context.Context, *cloud.LoadBalancerSpec) error { return errNo }
func (noLoadBalancers) Delete(context.Context, *cloud.LoadBalancerSpec) error        { return errNo }
func (noRoutes) List(context.Context, cloud.Cluster) ([]cloud.Route, error)          { return nil, errNo }
func (noRoutes) Apply(context.Context, cloud.Cluster, []cloud.Route, []cloud.Route) []error {
	return []error{errNo}
}
func (noInstances) Find(_ context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	return slices.Repeat([]cloud.Result[*cloud.Instance]{{Err: errNo}}, len(refs))
}
