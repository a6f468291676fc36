package instancecache

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
)

const period = 5 * time.Second // --node-monitor-period

func mustFind(t *testing.T, i *Cache, ref cloud.InstanceRef, maxAge time.Duration, others *Peers) *cloud.Instance {
	t.Helper()
	instance, err := i.Lookup(t.Context(), ref, maxAge, others)
	if err != nil {
		t.Errorf("Lookup(%v): %v", ref, err)
		return &cloud.Instance{}
	}
	return instance
}

// The framework initializes nodes one by one, sets their provider IDs, then refreshes
// their status one by one: all that is one batch while the answers are fresh.
func TestInitializationIsOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, pop := newFakeInstances(500), newNodes(500)
		f.latency = 300 * time.Millisecond
		d := cached(t, f, caller.Options{})
		all := &Peers{List: pop.list}
		for k, ref := range pop.list() {
			instance := mustFind(t, d, ref, MetadataMaxAge, all)
			if instance.Name != ref.NodeName {
				t.Fatalf("%s got the instance %s", ref.NodeName, instance.Name)
			}
			pop.initialize(k, instance.ProviderID)
			time.Sleep(10 * time.Millisecond) // the API server
		}
		for _, ref := range pop.list() {
			mustFind(t, d, ref, MetadataMaxAge, all)
		}
		f.wantCalls(t, 1, 0)

		time.Sleep(5 * time.Minute) // --node-status-update-frequency
		for _, ref := range pop.list() {
			mustFind(t, d, ref, MetadataMaxAge, all)
		}
		f.wantCalls(t, 2, 0)
	})
}

// Initialization that takes minutes, as the API server does not take the writes faster, is one batch all the same; a Node
// whose instance was told already, and one that came later, get a newer answer.
func TestSlowInitializationIsOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, pop := newFakeInstances(501), newNodes(500)
		for k := range pop.refs {
			pop.refs[k].SystemUUID = "ID-OF-NODE-" + fmt.Sprint(k)
		}
		d := cached(t, f, caller.Options{})
		all := &Peers{List: pop.list, Ahead: 5 * time.Minute}
		for k, ref := range pop.list()[:400] {
			pop.initialize(k, mustFind(t, d, ref, MetadataMaxAge, all).ProviderID)
			time.Sleep(500 * time.Millisecond) // 200 s in all
		}
		f.wantCalls(t, 1, 0)
		mustFind(t, d, pop.list()[399], MetadataMaxAge, all)
		f.wantCalls(t, 2, 0)
		mustFind(t, d, cloud.InstanceRef{NodeName: "node-500"}, MetadataMaxAge, all)
		f.wantCalls(t, 3, 0)
		time.Sleep(5 * time.Minute)
		mustFind(t, d, pop.list()[450], MetadataMaxAge, all)
		f.wantCalls(t, 4, 0)
	})
}

// What was read ahead is no answer where a name alone leads to it, which another machine may have by now, nor where
// it could not be read again since.
func TestReadAheadProvesNothingByNameOrAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, pop := newFakeInstances(3), newNodes(3)
		pop.refs[2].SystemUUID = "id-of-node-2"
		d := cached(t, f, caller.Options{Reads: caller.Policy{Attempts: 1}})
		all := &Peers{List: pop.list, Ahead: 5 * time.Minute}
		mustFind(t, d, pop.list()[0], MetadataMaxAge, all)
		time.Sleep(2 * MetadataMaxAge)
		f.set(func() { f.servers["node-1"] = &cloud.Instance{ProviderID: "fake:///another"} })
		if i := mustFind(t, d, pop.list()[1], MetadataMaxAge, nil); i.ProviderID != "fake:///another" {
			t.Errorf("the Node of that name got %s, which was there before", i.ProviderID)
		}
		f.set(func() {
			f.findErr = func(cloud.InstanceRef) error { return cloud.Errorf(cloud.KindConflict, "2 servers have this name") }
		})
		other := &Peers{List: pop.list}
		for range 2 {
			if _, err := d.Lookup(t.Context(), pop.list()[2], time.Second, other); cloud.KindOf(err) != cloud.KindConflict {
				t.Errorf("got %v", err)
			}
			other = all
			time.Sleep(failureHold)
		}
	})
}

// Exists and Shutdown of every NotReady node, each period after the last cycle's end.
func TestLifecycleCycleIsOneBatch(t *testing.T) {
	for _, test := range []struct {
		name           string
		latency, patch time.Duration
		nodes          int
	}{
		{"fast cloud", 50 * time.Millisecond, 0, 500},
		{"read slower than the period", 12 * time.Second, 0, 500},
		{"one node", 50 * time.Millisecond, 0, 1},
		{"taints patched", 50 * time.Millisecond, 5 * time.Millisecond, 500},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, pop := newFakeInstances(500), newNodes(500)
				f.latency = test.latency
				d := cached(t, f, caller.Options{})
				notReady := &Peers{List: func() []cloud.InstanceRef { return pop.list()[:test.nodes] }}
				for cycle := range 4 {
					for _, ref := range notReady.List() {
						for range 2 {
							if _, err := d.Lookup(t.Context(), ref, period*9/10, notReady); err != nil {
								t.Fatal(err)
							}
						}
						time.Sleep(test.patch)
					}
					f.wantCalls(t, cycle+1, 0)
					if got := len(f.finds[cycle]); got != test.nodes {
						t.Errorf("cycle %d read %d instances, want %d", cycle, got, test.nodes)
					}
					time.Sleep(period)
				}
			})
		})
	}
}

func TestConcurrentLookupsShareOneFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, among := range []bool{true, false} {
			f, pop := newFakeInstances(500), newNodes(500)
			f.latency = time.Second
			o := caller.Options{Metrics: newMetrics(t)}
			var all *Peers
			if among {
				all = &Peers{List: pop.list}
			}
			d := cached(t, f, o)
			var wg sync.WaitGroup
			for _, ref := range pop.list() {
				wg.Go(func() { mustFind(t, d, ref, MetadataMaxAge, all) })
			}
			wg.Wait()
			f.wantCalls(t, 1, 0)
			wantMetric(t, o.Metrics.Lookups.WithLabelValues("fake", "miss"), 1)
			wantMetric(t, o.Metrics.Lookups.WithLabelValues("fake", "shared"), 499)
			wantMetric(t, o.Metrics.Refreshes.WithLabelValues("fake"), 1)
		}
	})
}

// Nodes that register one after the other are not in any earlier batch.
func TestRegistrationOneByOne(t *testing.T) {
	for _, test := range []struct {
		every time.Duration
		most  int
	}{
		{0, 8}, {time.Millisecond, 8}, {10 * time.Millisecond, 10}, {150 * time.Millisecond, 45}, {time.Second, 260},
	} {
		t.Run(fmt.Sprint(test.every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, pop := newFakeInstances(500), newNodes(0)
				f.latency = 100 * time.Millisecond
				d := cached(t, f, caller.Options{})
				all := &Peers{List: pop.list}
				queue := make(chan string, 500)
				go func() {
					defer close(queue)
					for k := range 500 {
						name := fmt.Sprintf("node-%d", k)
						pop.register(name)
						queue <- name
						time.Sleep(test.every)
					}
				}()
				for name := range queue { // the framework's only worker
					began := time.Now()
					mustFind(t, d, cloud.InstanceRef{NodeName: name}, MetadataMaxAge, all)
					if took := time.Since(began); took > spacingMax+time.Second {
						t.Errorf("%s waited %v", name, took)
					}
				}
				if finds, _ := f.calls(); finds > test.most {
					t.Errorf("%d batches, want at most %d", finds, test.most)
				}
			})
		})
	}
}

// A batch asks for whom there is no answer yet, and not for whom another batch asks already.
func TestBatchAsksOnlyForWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, pop := newFakeInstances(12), newNodes(10)
		d := cached(t, f, caller.Options{})
		all := &Peers{List: pop.list}
		var sizes []int
		look := func(node string) {
			mustFind(t, d, cloud.InstanceRef{NodeName: node}, MetadataMaxAge, all)
			f.set(func() { sizes = append(sizes, len(f.finds[len(f.finds)-1])) })
		}
		look("node-0")
		pop.register("node-10")
		look("node-10")
		time.Sleep(MetadataMaxAge)
		f.set(func() { f.latency = 10 * time.Second })
		var wg sync.WaitGroup
		wg.Go(func() { look("node-0") })
		time.Sleep(time.Second)
		pop.register("node-11")
		wg.Go(func() { look("node-11") })
		time.Sleep(time.Second)
		f.set(func() { f.latency = 0 })
		wg.Wait()
		f.wantCalls(t, 4, 0)
		if diff := cmp.Diff([]int{10, 1, 1, 1}, sizes); diff != "" || len(f.finds[2]) != 11 {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}

// A node's name may come to mean another instance: what was asked by provider ID must not
// answer a question by name, nor what one ID gave a question for another.
func TestAnswersBelongToTheirRef(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeInstances(2)
		d := cached(t, f, caller.Options{})
		mustFind(t, d, cloud.InstanceRef{NodeName: "node-0", ProviderID: "fake:///id-of-node-0"}, time.Hour, nil)
		mustFind(t, d, cloud.InstanceRef{NodeName: "node-0"}, time.Hour, nil)
		f.wantCalls(t, 2, 0)
		got := mustFind(t, d, cloud.InstanceRef{NodeName: "node-0", ProviderID: "fake:///id-of-node-1"}, time.Hour, nil)
		if got.Name != "node-1" {
			t.Errorf("got %s for the provider ID of node-1", got.Name)
		}
		f.wantCalls(t, 3, 0)
		mustFind(t, d, cloud.InstanceRef{ProviderID: "fake:///id-of-node-1"}, time.Hour, nil)
		mustFind(t, d, cloud.InstanceRef{ProviderID: "fake:///id-of-node-1"}, time.Hour, nil)
		f.wantCalls(t, 4, 0)
	})
}

func TestMaxAgeZeroAsksAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeInstances(1)
		f.latency = 10 * time.Second
		d := cached(t, f, caller.Options{})
		ref := cloud.InstanceRef{NodeName: "node-0"}
		var wg sync.WaitGroup
		wg.Go(func() { mustFind(t, d, ref, time.Minute, nil) })
		time.Sleep(5 * time.Second)
		wg.Go(func() { mustFind(t, d, ref, time.Minute, nil) }) // shares
		wg.Go(func() { mustFind(t, d, ref, 0, nil) })           // the read under way began too early
		wg.Wait()
		f.wantCalls(t, 2, 0)
	})
}

func TestCallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeInstances(1)
		f.latency = 10 * time.Second
		d := cached(t, f, caller.Options{})
		ref := cloud.InstanceRef{NodeName: "node-0"}
		first, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			began := time.Now()
			if _, err := d.Lookup(first, ref, time.Minute, nil); err == nil || cloud.IsNotFound(err) {
				t.Errorf("the first caller's deadline: got %v", err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("the first caller waited %v beyond its deadline", took)
			}
		})
		synctest.Wait()
		wg.Go(func() { mustFind(t, d, ref, time.Minute, nil) })
		wg.Wait()
		f.wantCalls(t, 1, 0)
		if _, err := d.Lookup(first, ref, time.Minute, nil); err == nil {
			t.Error("a context that is done got an answer")
		}
	})
}

func TestSnapshotForgetsFormerNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, pop := newFakeInstances(500), newNodes(500)
		o := caller.Options{Metrics: newMetrics(t)}
		d := cached(t, f, o)
		all := &Peers{List: pop.list}
		look := func(entries int) {
			t.Helper()
			mustFind(t, d, cloud.InstanceRef{NodeName: "node-0"}, time.Second, all)
			if got := len(d.known.entries); got != entries {
				t.Fatalf("snapshot has %d entries, want %d", got, entries)
			}
		}
		look(500)
		pop.keep(10)
		time.Sleep(retention / 2)
		look(500)
		time.Sleep(retention / 2)
		look(10)
		wantMetric(t, o.Metrics.SnapshotSize.WithLabelValues("fake"), 10)
		if got := len(d.underWay) + len(d.confirming); got != 0 {
			t.Errorf("%d calls are still noted as under way", got)
		}
	})
}

func TestCloseEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeInstances(1)
		f.latency = 24 * time.Hour
		d := cached(t, f, caller.Options{Reads: caller.Policy{Deadline: 48 * time.Hour}})
		refs := []cloud.InstanceRef{{NodeName: "node-0"}, {NodeName: "node-1"}}
		var wg sync.WaitGroup
		for k, ref := range refs {
			wg.Go(func() {
				time.Sleep(time.Duration(k) * (time.Second - window/2)) // under way, waiting to begin
				if _, err := d.Lookup(t.Context(), ref, time.Minute, nil); err == nil || cloud.IsNotFound(err) {
					t.Errorf("got %v", err)
				}
			})
		}
		time.Sleep(time.Second)
		d.Close()
		d.Close()
		wg.Wait()
		if _, err := d.Lookup(t.Context(), refs[0], time.Minute, nil); err == nil || cloud.IsNotFound(err) {
			t.Errorf("after Close: got %v", err)
		}
	})
}

func BenchmarkLookupHit(b *testing.B) {
	f, pop := newFakeInstances(5000), newNodes(5000)
	d := cached(b, f, caller.Options{})
	all := &Peers{List: pop.list}
	refs := pop.list()
	ctx := context.Background()
	if _, err := d.Lookup(ctx, refs[0], time.Hour, all); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	k := 0
	for b.Loop() {
		if _, err := d.Lookup(ctx, refs[k%len(refs)], time.Hour, all); err != nil {
			b.Fatal(err)
		}
		k++
	}
	if finds, _ := f.calls(); finds != 1 {
		b.Errorf("%d batches, want 1", finds)
	}
}

func BenchmarkRefresh(b *testing.B) {
	f, pop := newFakeInstances(5000), newNodes(5000)
	d := cached(b, f, caller.Options{})
	refs := pop.list()
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		for k, r := range d.read(ctx, refs) {
			if r.Err != nil {
				b.Fatal(refs[k], r.Err)
			}
		}
	}
}
