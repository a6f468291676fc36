package places

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// toy is a place: a cloud of instances, volumes, routes and load balancers that are a word each.
type toy struct {
	name string
	mu   sync.Mutex
	// have are the names of instances and the IDs of volumes.
	have   map[string]bool
	table  []cloud.Route
	failed error
	off    bool // says that its instances are shut down
	calls  int
	spec   *cloud.LoadBalancerSpec
	// attached is how often somebody wanted to hear of the end of work.
	attached int
}

// begin counts a call and says how it fails.
func (t *toy) begin() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	return t.failed
}

func (t *toy) fail(err error) { t.failed = err }

type toyInstances struct{ *toy }

func (t toyInstances) Find(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	err := t.begin()
	out := make([]cloud.Result[*cloud.Instance], len(refs))
	for n, ref := range refs {
		if out[n].Err = err; err == nil {
			out[n].Value, out[n].Err = t.find(ref)
		}
	}
	return out
}

func (t toyInstances) Get(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	if err := t.begin(); err != nil {
		return nil, err
	}
	return t.find(ref)
}

func (t toyInstances) find(ref cloud.InstanceRef) (*cloud.Instance, error) {
	name := ref.NodeName
	if ref.ProviderID != "" {
		name = ref.ProviderID[strings.LastIndex(ref.ProviderID, "/")+1:]
	}
	switch {
	case t.have[name]:
		return &cloud.Instance{Name: name, ProviderID: "toy:///" + name, MachineIDs: []string{t.name + "-" + name}, Shutdown: t.off}, nil
	case len(t.have) == 0:
		return nil, fmt.Errorf("is there anything? %w", ErrEmpty)
	}
	return nil, &cloud.Error{Kind: cloud.KindNotFound, Scope: t.name, Err: errors.New("no such instance")}
}

type toyVolumes struct{ *toy }

func (t toyVolumes) Sources() []cloud.VolumeSource { return nil }

func (t toyVolumes) Ref(*corev1.PersistentVolume) (cloud.VolumeRef, bool, error) {
	return cloud.VolumeRef{ID: t.name}, true, nil
}

func (t toyVolumes) Find(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	out := make([]cloud.Result[*cloud.Volume], len(refs))
	for n, ref := range refs {
		out[n].Value, out[n].Err = t.Get(ctx, ref)
	}
	return out
}

func (t toyVolumes) Get(_ context.Context, ref cloud.VolumeRef) (*cloud.Volume, error) {
	if err := t.begin(); err != nil {
		return nil, err
	}
	if !t.have[ref.ID] {
		return nil, cloud.Errorf(cloud.KindNotFound, "no such volume")
	}
	return &cloud.Volume{ID: ref.ID, Region: t.name}, nil
}

type toyRoutes struct{ *toy }

func (t toyRoutes) List(context.Context, cloud.Cluster) ([]cloud.Route, error) {
	if err := t.begin(); err != nil {
		return nil, err
	}
	return slices.Clone(t.table), nil
}

func (t toyRoutes) Apply(_ context.Context, _ cloud.Cluster, add, remove []cloud.Route) []error {
	if err := t.begin(); err != nil {
		return slices.Repeat([]error{err}, len(add)+len(remove))
	}
	t.table = append(t.table, add...)
	t.table = slices.DeleteFunc(t.table, func(r cloud.Route) bool {
		return slices.ContainsFunc(remove, func(o cloud.Route) bool { return o.Destination == r.Destination })
	})
	return make([]error, len(add)+len(remove))
}

type toyBalancers struct {
	cloud.LoadBalancers
	*toy
}

func (t toyBalancers) Ensure(_ context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	t.spec = spec
	return &cloud.LoadBalancerStatus{}, nil
}

func (t toyBalancers) Attach(context.Context, func(cloud.LoadBalancerRef)) { t.attached++ }

func (t toyBalancers) UpdateMembers(_ context.Context, spec *cloud.LoadBalancerSpec) error {
	t.spec = spec
	return nil
}

// two are two toys and the provider that they are together; refs tell their place as
// "toy://<place>/<name>".
func two(abilities ...func(*toy, *cloud.Provider)) (one, other *toy, p *cloud.Provider) {
	all := make([]Place, 0, 2)
	for _, name := range []string{"here", "there"} {
		t := &toy{name: name, have: map[string]bool{}}
		next := &cloud.Provider{Name: "toy", Instances: toyInstances{t}, Volumes: toyVolumes{t}, Routes: toyRoutes{t},
			LoadBalancers: toyBalancers{toy: t}, Ready: func(context.Context) error { return t.failed }}
		for _, change := range abilities {
			change(t, next)
		}
		all = append(all, Place{name, next})
	}
	p = &cloud.Provider{Name: "toy"}
	Join(p, all, Words{Place: "site", Add: func(n string) string { return "add " + n }, AddRoutes: func(n string) string { return "route " + n }},
		func(ref cloud.InstanceRef) string {
			place, _, _ := strings.Cut(strings.TrimPrefix(ref.ProviderID, "toy://"), "/")
			return place
		})
	return all[0].Instances.(toyInstances).toy, all[1].Instances.(toyInstances).toy, p
}

// patiently has every pause be over.
func patiently(p *cloud.Provider) {
	hours := time.Duration(0)
	later := func() time.Time { hours++; return time.Time{}.Add(hours * time.Hour) }
	p.Instances.(*instances).places[1].gate.now = later
	p.Volumes.(*volumes).places[1].gate.now = later
	p.Routes.(*routes).places[1].gate.now = later
}

func byID(place, name string) cloud.InstanceRef {
	return cloud.InstanceRef{NodeName: name, ProviderID: "toy://" + place + "/" + name}
}

func byName(name string) cloud.InstanceRef { return cloud.InstanceRef{NodeName: name} }

var errDown = cloud.Errorf(cloud.KindUnavailable, "503")

// One batch in each place that is concerned, and one more where refs do not tell their place.
func TestInstancesAreLookedUpWhereTheyMayBe(t *testing.T) {
	here, there, p := two()
	here.have, there.have = map[string]bool{"a": true, "b": true, "both": true}, map[string]bool{"c": true, "d": true, "both": true}
	refs := []cloud.InstanceRef{byID("here", "a"), byID("there", "c"), byID("", "b"), byID("", "d"), byName("a"), byName("d"),
		byName("both"), {NodeName: "both", SystemUUID: "THERE-both"}, byID("nowhere", "a"), byID("there", "a"), byID("", "x"), byName("x")}
	want := []string{"a", "c", "b", "d", "a", "d", "Conflict sites here and there both have", "both",
		"Invalid none of here, there; add nowhere", "NotFound of there", "NotFound of here", "NotFound of "}
	var got []string
	for n, r := range p.Instances.Find(t.Context(), refs) {
		switch kind := cloud.KindOf(r.Err); {
		case r.Err == nil:
			got = append(got, r.Value.Name)
		case cloud.IsNotFound(r.Err):
			got = append(got, "NotFound of "+cloud.ScopeOf(r.Err))
		default:
			_, text, _ := strings.Cut(want[n], " ")
			if !strings.Contains(r.Err.Error(), text) {
				t.Errorf("%v: %v", refs[n], r.Err)
			}
			got = append(got, kind.String()+" "+text)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if here.calls != 1 || there.calls != 2 {
		t.Errorf("%d and %d batches, want 1 and 2", here.calls, there.calls)
	}
}

// What a place that is down may have is not known, and never NotFound; the other's is.
func TestInstancesOfPlaceThatIsDown(t *testing.T) {
	here, there, p := two()
	patiently(p)
	here.have = map[string]bool{"a": true, "b": true}
	get := func(ref cloud.InstanceRef) error { _, err := p.Instances.Get(t.Context(), ref); return err }
	if err := get(byName("a")); err != nil {
		t.Fatalf("where the other place has nothing: %v", err)
	}
	if err := get(byName("x")); !cloud.IsNotFound(err) {
		t.Errorf("that one place has nothing at all is no doubt: %v", err)
	}
	there.fail(errDown)
	delete(here.have, "a")
	for _, ref := range []cloud.InstanceRef{byID("", "a"), byID("here", "x")} { // seen here before; told
		if err := get(ref); !cloud.IsNotFound(err) {
			t.Errorf("%v: %v", ref, err)
		}
	}
	for _, ref := range []cloud.InstanceRef{byID("", "x"), byName("x"), byID("there", "x")} {
		if err := get(ref); err == nil || cloud.IsNotFound(err) {
			t.Errorf("%v: %v", ref, err)
		}
	}
	here.have, there.failed = nil, nil
	if err := get(byName("x")); !errors.Is(err, ErrEmpty) || cloud.IsNotFound(err) {
		t.Errorf("no place has anything, which is no proof: %v", err)
	}
}

func TestInstancesMove(t *testing.T) {
	here, there, p := two()
	patiently(p)
	p.Instances.(*instances).words.Moves = true
	here.have, there.have = map[string]bool{"a": true, "b": true}, map[string]bool{"c": true}
	ref := byID("", "a")
	get := func() error { _, err := p.Instances.Get(t.Context(), ref); return err }
	if err := get(); err != nil {
		t.Fatal(err)
	}
	delete(here.have, "a")
	there.fail(errDown)
	if err := get(); err == nil || cloud.IsNotFound(err) {
		t.Errorf("it may have moved to a place that is down: %v", err)
	}
	there.fail(nil)
	if err := get(); !cloud.IsNotFound(err) {
		t.Errorf("it is nowhere: %v", err)
	}
	there.have["a"] = true
	if err := get(); err != nil {
		t.Errorf("it has moved: %v", err)
	}
	here.fail(errDown)
	if err := get(); err != nil {
		t.Errorf("it was seen where it is now: %v", err)
	}
}

// A copy that is off, as of a second site, says nothing of the instance that runs elsewhere.
func TestCopiesThatAreOff(t *testing.T) {
	here, there, p := two()
	patiently(p)
	p.Instances.(*instances).words.Moves = true
	here.have, here.off, there.have = map[string]bool{"a": true, "b": true}, true, map[string]bool{"a": true}
	if i, err := p.Instances.Get(t.Context(), byID("", "a")); cloud.KindOf(err) != cloud.KindConflict {
		t.Errorf("%+v, %v", i, err)
	}
	if i, err := p.Instances.Get(t.Context(), byID("", "b")); err != nil || !i.Shutdown {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestInstanceOfPlaceThatIsDownMayHaveTheSameName(t *testing.T) {
	here, there, p := two()
	here.have = map[string]bool{"a": true}
	there.fail(errDown)
	if _, err := p.Instances.Get(t.Context(), byName("a")); err == nil || !strings.Contains(err.Error(), "whether another site has one too is not known") {
		t.Errorf("got %v", err)
	}
	if _, err := p.Instances.Get(t.Context(), cloud.InstanceRef{NodeName: "a", SystemUUID: "here-a"}); err != nil {
		t.Errorf("the machine says that it is this one: %v", err)
	}
}

// What is remembered of where instances are has a bound.
func TestHomesAreBounded(t *testing.T) {
	here, _, p := two()
	here.have = map[string]bool{"a": true}
	i := p.Instances.(*instances)
	for n := range maxHomes {
		i.homes[fmt.Sprint(n)] = i.places[0]
	}
	if _, err := i.Get(t.Context(), byName("a")); err != nil || len(i.homes) != 1 {
		t.Errorf("%d remembered, %v", len(i.homes), err)
	}
}

// A place that fails again and again is left alone for a while and then tried again; what others
// have is answered all the time.
func TestPlaceThatFailsIsLeftAlone(t *testing.T) {
	here, there, p := two()
	here.have, there.have = map[string]bool{"a": true}, map[string]bool{"b": true}
	now := time.Now()
	p.Instances.(*instances).places[1].gate.now = func() time.Time { return now }
	find := func(want cloud.Kind, calls int) {
		t.Helper()
		there.calls = 0
		r := p.Instances.Find(t.Context(), []cloud.InstanceRef{byID("here", "a"), byID("there", "b")})
		if r[0].Err != nil || r[1].Err == nil && want != cloud.KindUnknown || r[1].Err != nil && cloud.KindOf(r[1].Err) != want || there.calls != calls {
			t.Errorf("%v and %v with %d calls, want %v with %d", r[0].Err, r[1].Err, there.calls, want, calls)
		}
	}
	there.fail(&cloud.Error{Kind: cloud.KindThrottled, RetryAfter: time.Minute, Err: errors.New("429")})
	for range failuresMost + 1 { // is an answer
		find(cloud.KindThrottled, 1)
	}
	there.fail(errDown)
	for range failuresMost {
		find(cloud.KindUnavailable, 1)
	}
	find(cloud.KindRetryAfter, 0)
	now = now.Add(pause)
	find(cloud.KindUnavailable, 1)
	find(cloud.KindRetryAfter, 0)
	there.fail(nil)
	now = now.Add(pause)
	find(cloud.KindUnknown, 1) // that is, none
}

func TestGateBoundsTheWait(t *testing.T) {
	now := time.Now()
	g := newGate("x")
	g.now = func() time.Time { return now }
	var got []time.Duration
	for range 5 {
		ctx, cancel, err := g.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		deadline, _ := ctx.Deadline()
		got = append(got, time.Until(deadline).Round(time.Second))
		cancel()
		began := now
		now = now.Add(slow)
		g.leave(began, errDown)
		now = now.Add(pause)
	}
	want := []time.Duration{patience, trial, 2 * trial, 4 * trial, patience}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("patience (-want +got):\n%s", diff)
	}
}

// A place that hangs is no outage for who has given up on his own.
func TestWhoGivesUpSaysNothingAboutThePlace(t *testing.T) {
	g := newGate("x")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range failuresMost {
		ask(ctx, g, 1, func(context.Context) []cloud.Result[int] { cancel(); return []cloud.Result[int]{{Err: errDown}} })
	}
	if g.failures != 0 {
		t.Errorf("%d failures counted", g.failures)
	}
}

func TestVolumesAreLookedUpInEveryPlace(t *testing.T) {
	here, there, p := two()
	patiently(p)
	here.have, there.have = map[string]bool{"a": true, "both": true}, map[string]bool{"b": true, "both": true}
	refs := []cloud.VolumeRef{{ID: "a"}, {ID: "b"}, {ID: "x"}, {ID: "both"}}
	kinds := func() (got []string) {
		for n, r := range p.Volumes.Find(t.Context(), refs) {
			v, err := p.Volumes.Get(t.Context(), refs[n])
			if (err == nil) != (r.Err == nil) || cloud.KindOf(err) != cloud.KindOf(r.Err) || err == nil && v.Region != r.Value.Region {
				t.Errorf("%v: Get says %v, %v and Find %v", refs[n], v, err, r)
			}
			if r.Err != nil {
				got = append(got, cloud.KindOf(r.Err).String())
			} else {
				got = append(got, r.Value.Region)
			}
		}
		return got
	}
	if diff := cmp.Diff([]string{"here", "there", "NotFound", "Conflict"}, kinds()); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	there.fail(cloud.Errorf(cloud.KindUnsupported, "there are no volumes here"))
	if diff := cmp.Diff([]string{"here", "NotFound", "NotFound", "here"}, kinds()); diff != "" {
		t.Errorf("a place without volumes (-want +got):\n%s", diff)
	}
	there.fail(errDown)
	if diff := cmp.Diff([]string{"here", "Unavailable", "Unavailable", "here"}, kinds()); diff != "" {
		t.Errorf("a place that is down (-want +got):\n%s", diff)
	}
	if ref, ok, err := p.Volumes.Ref(nil); ref.ID != "here" || !ok || err != nil {
		t.Errorf("Ref: %v, %v, %v", ref, ok, err)
	}
}

func TestRoutesAreTheirNodesPlaces(t *testing.T) {
	here, there, p := two()
	patiently(p)
	cluster := cloud.Cluster{UID: "u"}
	route := func(n byte, ref cloud.InstanceRef) cloud.Route {
		return cloud.Route{Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, n, 0}), 24), Node: ref}
	}
	apply := func(add, remove []cloud.Route) (got []cloud.Kind) {
		for _, err := range p.Routes.Apply(t.Context(), cluster, add, remove) {
			if err == nil {
				got = append(got, -1)
			} else {
				got = append(got, cloud.KindOf(err))
			}
		}
		return got
	}
	one, two, three := route(1, byID("", "a")), route(2, byID("there", "b")), route(3, byID("there", "c"))
	if diff := cmp.Diff([]cloud.Kind{-1, -1, cloud.KindInvalid}, apply([]cloud.Route{one, two, route(9, byID("nowhere", "x"))}, nil)); diff != "" {
		t.Errorf("add (-want +got):\n%s", diff)
	}
	if len(here.table) != 1 || len(there.table) != 1 {
		t.Errorf("%d and %d routes", len(here.table), len(there.table))
	}
	list := func() int {
		routes, err := p.Routes.List(t.Context(), cluster)
		if err != nil {
			return -1
		}
		return len(routes)
	}
	if n := list(); n != 2 {
		t.Errorf("%d routes", n)
	}
	there.fail(errDown)
	if n := list(); n != 2 {
		t.Errorf("%d routes with one place down, want those of the last time", n)
	}
	if diff := cmp.Diff([]cloud.Kind{-1, cloud.KindUnavailable}, apply([]cloud.Route{one, three}, nil)); diff != "" {
		t.Errorf("add with one place down (-want +got):\n%s", diff)
	}
	here.fail(errDown)
	if n := list(); n != -1 {
		t.Errorf("%d routes with both places down", n)
	}
	here.fail(nil)
	there.fail(nil)
	here.calls = 0
	if apply(nil, []cloud.Route{two})[0] != -1 || len(there.table) != 0 || here.calls != 0 {
		t.Errorf("%d routes left after one was removed where it was seen, %d calls elsewhere", len(there.table), here.calls)
	}
	if apply(nil, []cloud.Route{three})[0] != -1 || here.calls != 1 {
		t.Errorf("what was seen nowhere is removed everywhere: %d calls", here.calls)
	}
}

// Routes to instances, and blackholes, have no address to tell them apart by.
func TestRouteIsRemovedWhereItsHopWasSeen(t *testing.T) {
	cidr := netip.MustParsePrefix("10.0.1.0/24")
	a, b, blackhole := cloud.Route{Destination: cidr, Target: "toy://here/a"}, cloud.Route{Destination: cidr, Target: "toy://there/b"}, cloud.Route{Destination: cidr, Blackhole: true}
	for _, tt := range []struct {
		name              string
		atHere, atThere   cloud.Route
		remove            cloud.Route
		atHereN, atThereN int
	}{
		{"to an instance", a, b, b, 1, 0},
		{"to an instance, beside a blackhole", blackhole, b, b, 1, 0},
		{"a blackhole, beside one to an instance", a, blackhole, blackhole, 1, 0},
		{"a blackhole in both places", blackhole, blackhole, blackhole, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			here, there, p := two()
			here.table, there.table = []cloud.Route{tt.atHere}, []cloud.Route{tt.atThere}
			cluster := cloud.Cluster{UID: "u"}
			if _, err := p.Routes.List(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			if err := p.Routes.Apply(t.Context(), cluster, nil, []cloud.Route{tt.remove})[0]; err != nil {
				t.Fatal(err)
			}
			if len(here.table) != tt.atHereN || len(there.table) != tt.atThereN {
				t.Errorf("%v and %v are left, want %d and %d routes", here.table, there.table, tt.atHereN, tt.atThereN)
			}
		})
	}
}

func TestRoutesOfPlaceWithoutAny(t *testing.T) {
	_, _, p := two(func(t *toy, p *cloud.Provider) {
		if t.name == "there" {
			p.Routes = nil
		}
	})
	err := p.Routes.Apply(t.Context(), cloud.Cluster{}, []cloud.Route{{Node: byID("there", "a")}}, nil)[0]
	if cloud.KindOf(err) != cloud.KindInvalid || !strings.Contains(err.Error(), "its node is in site there, which has no routes; route there") {
		t.Errorf("got %v", err)
	}
	if _, _, p = two(func(_ *toy, p *cloud.Provider) { p.Routes, p.Volumes, p.LoadBalancers = nil, nil, nil }); p.Routes != nil || p.Volumes != nil || p.LoadBalancers != nil {
		t.Error("an ability that no place has is not nil")
	}
}

// Members are the Nodes of the place of the load balancers; the user hears of the others.
func TestLoadBalancersHaveTheirOwnPlacesNodes(t *testing.T) {
	here, there, p := two()
	spec := &cloud.LoadBalancerSpec{}
	for _, ref := range []cloud.InstanceRef{byID("", "a"), byID("here", "b"), byID("there", "c")} {
		spec.Members = append(spec.Members, cloud.LoadBalancerMember{Node: ref})
	}
	spec.Candidates = spec.Members
	status, err := p.LoadBalancers.Ensure(t.Context(), spec)
	if err != nil || len(here.spec.Members) != 2 || len(here.spec.Candidates) != 2 || there.spec != nil || len(spec.Members) != 3 {
		t.Errorf("%v: %+v", err, here.spec)
	}
	want := []string{"1 nodes get no traffic from the load balancer, which is in site here and cannot reach their sites: c (there)"}
	if diff := cmp.Diff(want, status.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if w, ok := p.LoadBalancers.(cloud.Waiting); ok {
		w.Attach(t.Context(), nil)
	}
	if here.attached != 1 || there.attached != 0 {
		t.Errorf("attached %d times here, %d there", here.attached, there.attached)
	}
	here.spec = nil
	if err := p.LoadBalancers.UpdateMembers(t.Context(), spec); err != nil || len(here.spec.Members) != 2 {
		t.Errorf("%v: %+v", err, here.spec)
	}
}

// A further place that is down keeps nobody from starting; one that cannot work does.
func TestReady(t *testing.T) {
	for _, tt := range []struct {
		here, there error
		ready       bool
	}{
		{nil, nil, true}, {errDown, nil, false}, {nil, errDown, true}, {nil, cloud.Errorf(cloud.KindInvalid, "no such site"), false},
	} {
		here, there, p := two()
		here.failed, there.failed = tt.here, tt.there
		if err := p.Ready(t.Context()); (err == nil) != tt.ready {
			t.Errorf("%v and %v: %v", tt.here, tt.there, err)
		}
	}
}

// Where instances move, no place is the first: those that can be used keep it going, also when another refuses the password or does
// not answer in time.
func TestAnyPlaceIsReady(t *testing.T) {
	denied := cloud.Errorf(cloud.KindDenied, "no such user")
	for _, tt := range []struct {
		here, there error
		ready       bool
	}{{nil, nil, true}, {errDown, nil, true}, {nil, denied, true}, {denied, errDown, false}} {
		j := joined{words: Words{Place: "site", Moves: true}, all: []Place{{Name: "here", Provider: &cloud.Provider{Ready: func(context.Context) error { return tt.here }}},
			{Name: "there", Provider: &cloud.Provider{Ready: func(context.Context) error { return tt.there }}}}}
		if err := j.ready(t.Context()); (err == nil) != tt.ready {
			t.Errorf("%v and %v: %v", tt.here, tt.there, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		j := joined{words: Words{Place: "site", Moves: true}, all: []Place{{Name: "a", Provider: &cloud.Provider{Ready: hangs}}, {Name: "b", Provider: &cloud.Provider{}}}}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := j.ready(ctx); err != nil || ctx.Err() != nil {
			t.Errorf("%v, %v", err, ctx.Err())
		}
	})
}

func TestRunRunsAll(t *testing.T) {
	var mu sync.Mutex
	ran := 0
	_, _, p := two(func(_ *toy, p *cloud.Provider) {
		p.Run = func(ctx context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			ran++
			return nil
		}
	})
	if err := p.Run(t.Context()); err != nil || ran != 2 {
		t.Errorf("%d ran, %v", ran, err)
	}
	if _, _, p = two(); p.Run != nil {
		t.Error("there is something to run")
	}
}
