package instancecache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

// inScopes gives the fake's answers a scope that tests change, as credentials do.
type inScopes struct {
	*fakeInstances
	scope string // guarded by fakeInstances.mu
	blind bool   // no server of the cluster is in this scope
	// away are Nodes of another region, whose scope is "away".
	away map[string]bool
}

func (f *inScopes) answer(ref cloud.InstanceRef, r cloud.Result[*cloud.Instance]) cloud.Result[*cloud.Instance] {
	f.mu.Lock()
	defer f.mu.Unlock()
	scope := f.scope
	if f.away[ref.NodeName] {
		scope = "away"
	}
	if r.Err == nil && f.blind {
		r = cloud.Result[*cloud.Instance]{Err: cloud.Errorf(cloud.KindNotFound, "none of ours")}
	}
	if r.Err == nil {
		found := *r.Value
		found.Scope = scope
		r.Value = &found
	} else if cloud.IsNotFound(r.Err) {
		r.Err = &cloud.Error{Kind: cloud.KindNotFound, Scope: scope, Err: r.Err}
	}
	return r
}

func (f *inScopes) Find(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	out := f.fakeInstances.Find(ctx, refs)
	for k := range out {
		out[k] = f.answer(refs[k], out[k])
	}
	return out
}

func (f *inScopes) Get(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	found, err := f.fakeInstances.Get(ctx, ref)
	r := f.answer(ref, cloud.Result[*cloud.Instance]{Value: found, Err: err})
	return r.Value, r.Err
}

// guarded is a cluster of n nodes with its cloud and the guard on.
type guarded struct {
	t       *testing.T
	cloud   *inScopes
	nodes   *nodes
	d       *Cache
	m       *caller.Metrics
	percent int // of the limit
	lists   int // how often the guard's Nodes were gone through
	// operator is an operator's word.
	operator deletionguard.Operator
}

func newGuarded(t *testing.T, n int) *guarded {
	b := &guarded{t: t, cloud: &inScopes{fakeInstances: newFakeInstances(n), scope: "ours"}, nodes: newNodes(n), m: newMetrics(t), percent: 45}
	for k := range n {
		b.nodes.initialize(k, fmt.Sprintf("fake:///id-of-node-%d", k))
	}
	b.restart()
	return b
}

// restart is a new process.
func (b *guarded) restart() {
	b.d = cached(b.t, b.cloud, caller.Options{Metrics: b.m})
	b.d.Guard(&Peers{List: func() []cloud.InstanceRef { b.lists++; return b.nodes.list() }},
		deletionguard.Limits{Count: 3, Percent: b.percent, Settle: 10 * time.Minute},
		func(context.Context) deletionguard.Operator { return b.operator })
}

// cycle asks about all nodes as the lifecycle controller does when none is ready, deletes
// the Nodes that are not found and returns how many those were.
func (b *guarded) cycle() (deleted int) {
	b.t.Helper()
	rest := []cloud.InstanceRef{}
	peers := &Peers{List: b.nodes.list}
	for _, ref := range b.nodes.list() {
		_, err := b.d.Lookup(b.t.Context(), ref, 4500*time.Millisecond, peers)
		if cloud.IsNotFound(err) {
			deleted++
			continue
		}
		rest = append(rest, ref)
		if hold := b.d.Held(); deletionguard.IsHeld(err) && hold == nil {
			b.t.Errorf("%v, but nothing is held", err)
		}
	}
	b.nodes.mu.Lock()
	b.nodes.refs = rest
	b.nodes.mu.Unlock()
	time.Sleep(5 * time.Second)
	return deleted
}

func (b *guarded) want(deleted int, reason string) {
	b.t.Helper()
	if got := b.cycle(); got != deleted {
		b.t.Errorf("%d Nodes were deleted, want %d", got, deleted)
	}
	hold := b.d.Held()
	if (hold != nil) != (reason != "") || hold != nil && !strings.Contains(hold.Verdict.Message, reason) {
		b.t.Errorf("held: %+v, want because of %q", hold, reason)
	}
	on, held := 0.0, 0.0
	if hold != nil {
		on, held = 1, float64(len(hold.Nodes))
	}
	wantMetric(b.t, b.m.GuardOn.WithLabelValues("fake"), on)
	wantMetric(b.t, b.m.Held.WithLabelValues("fake"), held)
}

// join adds a Node with its instance.
func (b *guarded) join(name string) {
	b.cloud.add(name)
	b.nodes.register(name)
	b.nodes.initialize(len(b.nodes.list())-1, "fake:///id-of-"+name)
}

func (b *guarded) lose(from, to int) {
	for k := from; k < to; k++ {
		b.cloud.remove(fmt.Sprintf("node-%d", k))
	}
}

// Credentials of another project: every read is "not found".
func TestNoNodeGoesWhenCredentialsAreAnotherProjects(t *testing.T) {
	for _, n := range []int{1, 3, 60} {
		for _, when := range []string{"at start", "rotated", "rotated to a scope that has all", "rotated and back"} {
			t.Run(fmt.Sprintf("%d nodes, %s", n, when), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newGuarded(t, n)
					if when != "at start" {
						b.want(0, "")
					}
					b.cloud.set(func() { b.cloud.scope, b.cloud.blind = "theirs", when != "rotated to a scope that has all" })
					reason := "no instance of this cluster was seen in theirs"
					if !b.cloud.blind {
						reason = ""
					}
					finds, gets := b.cloud.calls()
					for range 130 { // longer than Settle
						b.want(0, reason)
					}
					f, g := b.cloud.calls()
					if f-finds > 130+1 || g-gets > 130 {
						t.Errorf("%d Find and %d Get in 130 cycles, want at most one of each a cycle", f-finds, g-gets)
					}
					if when == "rotated and back" {
						b.cloud.set(func() { b.cloud.scope, b.cloud.blind = "ours", false })
						b.want(0, "")
						b.join("other")
						b.lose(0, 1)
						b.want(1, "")
					}
				})
			})
		}
	}
}

// What is really gone goes: in small clusters, and one by one.
func TestNodesGoWhenFewAreMissing(t *testing.T) {
	for _, test := range []struct{ nodes, lost int }{{2, 1}, {3, 2}, {4, 3}, {7, 3}, {10, 4}, {100, 45}} {
		t.Run(fmt.Sprintf("%d of %d", test.lost, test.nodes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newGuarded(t, test.nodes)
				b.want(0, "")
				b.lose(0, test.lost)
				b.want(test.lost, "")
			})
		})
	}
}

// With no instance of the cluster left to be seen, the last Nodes stay, however few they are:
// as with any mass loss until an operator lets them go, until another instance is seen, or where
// no limit is wanted.
func TestLastNodesStayWhenNoInstanceIsSeen(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		for how, end := range map[string]func(*guarded){
			"an operator's word": func(b *guarded) { b.operator.Confirmed = true; time.Sleep(5 * time.Second) },
			"a new Node":         func(b *guarded) { b.join("new") },
		} {
			t.Run(fmt.Sprintf("%d of %d until %s", n, n, how), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newGuarded(t, n)
					b.want(0, "")
					b.lose(0, n)
					for range 500 {
						b.want(0, fmt.Sprintf("no instance of the cluster is seen now (nodes: %d)", n))
					}
					end(b)
					b.want(n, "")
				})
			})
		}
		t.Run(fmt.Sprintf("%d of %d, no limit", n, n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newGuarded(t, n)
				b.percent = 100
				b.restart()
				b.want(0, "")
				b.lose(0, n)
				b.want(n, "")
			})
		})
	}
}

// The Nodes of a region that shows none of them any more stay, too, be they few of the cluster's: its
// Nova may have been restored from nothing. A single one goes, as the last one of a region does.
func TestLastNodesOfAScopeStayWhenTheyGoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, 20)
		b.cloud.away = map[string]bool{"node-0": true, "node-1": true, "node-2": true}
		b.want(0, "")
		b.lose(0, 3)
		for range 500 {
			b.want(0, "no instance of the cluster is seen in away any more, and 3 nodes were there")
		}
		b.lose(3, 5) // the other region's go
		b.want(2, "no instance of the cluster is seen in away any more, and 3 nodes were there")
		b.operator.Confirmed = true
		time.Sleep(5 * time.Second)
		b.want(3, "")
		b.operator.Confirmed = false
		b.cloud.set(func() { b.cloud.away = map[string]bool{"node-5": true, "node-6": true} })
		b.want(0, "")
		b.lose(5, 6)
		b.want(1, "")
		b.lose(6, 7)
		b.want(1, "")
	})
}

// A large loss is held until it has lasted while others of the cluster are seen.
func TestLossIsBelievedWhenItHasLasted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, 120)
		b.want(0, "")
		b.lose(0, 100)
		began := time.Now()
		for time.Since(began) < 10*time.Minute-time.Second {
			b.want(0, "100 of 120 nodes have no instance, more than the limit of 54")
		}
		time.Sleep(5 * time.Second)
		b.want(100, "")
	})
}

// Thousands of Nodes that are held are gone through twice a batch, to read them and to count
// them, and not for each question.
func TestNodesAreCountedOnceABatchWhenTheyAreHeld(t *testing.T) {
	for _, n := range []int{10, 500} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newGuarded(t, n)
				b.want(0, "")
				b.lose(0, n)
				b.want(0, fmt.Sprintf("%d of %d nodes have no instance", n, n))
				finds, _ := b.cloud.calls()
				b.lists = 0
				for range 5 {
					b.want(0, fmt.Sprintf("%d of %d nodes have no instance", n, n))
				}
				after, _ := b.cloud.calls()
				if batches := after - finds; batches != 5 || b.lists > 2*batches {
					t.Errorf("all Nodes were gone through %d times in %d batches of 5 cycles, want 2 times a batch and one a cycle", b.lists, batches)
				}
			})
		})
	}
}

// A new cluster's Nodes are initialized one by one by their names: they are not gone through
// for each of them.
func TestNodesAreCountedOnceABatchWhenTheClusterIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, 0)
		for k := range 200 {
			b.cloud.add(fmt.Sprint("node-", k))
			b.nodes.register(fmt.Sprint("node-", k))
		}
		b.nodes.register("not asked about yet")
		others := &Peers{List: func() []cloud.InstanceRef { return b.nodes.list()[:200] }}
		for k, ref := range b.nodes.list()[:200] {
			found, err := b.d.Lookup(t.Context(), ref, MetadataMaxAge, others)
			if err != nil {
				t.Fatal(err)
			}
			b.nodes.initialize(k, found.ProviderID)
		}
		if f, _ := b.cloud.calls(); f != 1 || b.lists > 2 {
			t.Errorf("%d batches, all Nodes were gone through %d times, want 1 and 2 at most", f, b.lists)
		}
	})
}

// What is answered from the snapshot is counted anew when the answers are too old for it.
func TestNodesAreCountedAnewWhenTheAnswersGetOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, 20)
		b.want(0, "")
		b.lose(0, 2)
		ask := func() error {
			_, err := b.d.Lookup(t.Context(), b.nodes.list()[0], time.Hour, nil)
			return err
		}
		time.Sleep(MetadataMaxAge)
		b.cloud.set(func() { b.cloud.hidden = true })
		if _, err := b.d.Lookup(t.Context(), b.nodes.list()[0], time.Second, &Peers{List: b.nodes.list}); !deletionguard.IsHeld(err) {
			t.Errorf("20 of 20 are missing, but: %v", err)
		}
		b.cloud.set(func() { b.cloud.hidden = false })
		if err := ask(); !deletionguard.IsHeld(err) {
			t.Errorf("the last batch lacked 20 of 20, but: %v", err)
		}
		time.Sleep(MetadataMaxAge)
		if err := ask(); !cloud.IsNotFound(err) {
			t.Errorf("2 of 20 are missing, but: %v", err)
		}
	})
}

// The time in which no other instance was seen does not count: it begins when the first new
// Node is there.
func TestLossHasNotLastedWhenNoOtherWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, 20)
		b.want(0, "")
		b.lose(0, 20)
		for range 500 {
			b.want(0, "20 of 20 nodes have no instance")
		}
		b.join("new")
		began := time.Now()
		for time.Since(began) < 10*time.Minute-5*time.Second {
			b.want(0, "20 of 21 nodes have no instance")
		}
		time.Sleep(10 * time.Second)
		b.want(20, "")
	})
}

// What nobody asked about for a while has not lasted: it begins anew.
func TestLossIsHeldWhenItHasNotLasted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, 20)
		b.want(0, "")
		b.lose(0, 12)
		b.want(0, "12 of 20 nodes have no instance")
		time.Sleep(11 * time.Minute)
		b.want(0, "12 of 20 nodes have no instance")
	})
}

// With no instance of the cluster left to be seen, only an operator ends the hold.
func TestLossIsHeldWhenNoOtherIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, 5)
		b.want(0, "")
		b.lose(0, 5)
		for range 500 {
			b.want(0, "5 of 5 nodes have no instance, more than the limit of 3")
		}
		b.operator.Problem = "the annotation is no time"
		b.cycle()
		b.want(0, "the annotation is no time")
		b.operator = deletionguard.Operator{Confirmed: true}
		b.cycle()
		if b.cycle(); len(b.nodes.list()) != 0 {
			t.Errorf("%d Nodes are left after the release", len(b.nodes.list()))
		}
		if hold := b.d.Held(); hold != nil {
			t.Errorf("still held: %+v", hold)
		}
	})
}

// After a restart nothing is known, so the last Nodes stay until an operator says otherwise.
func TestLastNodesStayWhenTheProcessStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, 2)
		b.want(0, "")
		b.lose(0, 2)
		b.restart()
		b.want(0, "no instance of this cluster was seen in ours")
		b.cloud.add("node-2")
		b.nodes.register("node-2")
		b.nodes.initialize(2, "fake:///id-of-node-2")
		b.want(2, "")
	})
}

// Lists that lack everything are found out by direct reads, a few at a time.
func TestDirectReadsContradictWhenListsLackServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, 20)
		b.want(0, "")
		b.cloud.set(func() { b.cloud.hidden = true })
		for range 50 {
			if b.cycle() != 0 {
				t.Fatal("a Node was deleted")
			}
		}
		if testutil.ToFloat64(b.m.Contradictions.WithLabelValues("fake")) == 0 {
			t.Error("no direct read contradicted the lists")
		}
		b.cloud.set(func() { b.cloud.hidden = false })
		b.want(0, "")
	})
}

// A loss that cannot be weighed because the rest cannot be read is held.
func TestLossIsHeldWhenOthersCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, 50)
		b.want(0, "")
		b.lose(0, 1)
		b.cloud.set(func() {
			b.cloud.findErr = func(ref cloud.InstanceRef) error {
				if ref.NodeName == "node-0" {
					return nil
				}
				return errors.New("503")
			}
		})
		time.Sleep(MetadataMaxAge)
		b.want(0, "the instances of 49 of 50 nodes could not be read")
		b.cloud.set(func() { b.cloud.findErr = nil })
		b.want(1, "")
	})
}

// Nodes that are no question for this cloud do not count as lost.
func TestForeignNodesDoNotCountWhenOthersAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, 10)
		b.cloud.set(func() {
			b.cloud.findErr = func(ref cloud.InstanceRef) error {
				if ref.NodeName >= "node-5" {
					return cloud.Errorf(cloud.KindInvalid, "in another region")
				}
				return nil
			}
		})
		b.want(0, "")
		b.lose(0, 2)
		b.want(2, "")
	})
}

// Another project has a server of the name of a Node that is not initialized: it is not that
// Node's, the absence of the next name means nothing, and the Nodes that are there stay, after
// a restart too. With the right credentials everything goes its way.
func TestNameMatchIsRefusedWhenExistingNodesAreNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, 2)
		b.cloud.add("new")
		b.nodes.register("new")
		b.nodes.register("newer")
		b.cloud.set(func() {
			b.cloud.scope = "theirs"
			b.cloud.findErr = func(ref cloud.InstanceRef) error {
				if ref.ProviderID != "" {
					return cloud.Errorf(cloud.KindNotFound, "none of ours")
				}
				return nil
			}
			b.cloud.getErr = b.cloud.findErr
		})
		byName := cloud.InstanceRef{NodeName: "new"}
		for range 200 {
			if b.cycle() != 0 {
				t.Fatal("a Node was deleted")
			}
			if _, err := b.d.Lookup(t.Context(), byName, MetadataMaxAge, nil); err == nil || !strings.Contains(err.Error(), "none of 2 nodes that had a provider ID at start was found there") {
				t.Fatalf("a name match is taken for the Node's: %v", err)
			}
			b.restart()
		}
		b.operator = deletionguard.Operator{Confirmed: true}
		if _, err := b.d.Lookup(t.Context(), byName, MetadataMaxAge, nil); err != nil {
			t.Errorf("an operator's word does not count: %v", err)
		}
		b.operator = deletionguard.Operator{}
		b.restart()
		b.cloud.set(func() { b.cloud.scope, b.cloud.findErr, b.cloud.getErr = "ours", nil, nil })
		b.want(1, "") // newer
		if _, err := b.d.Lookup(t.Context(), byName, MetadataMaxAge, nil); err != nil {
			t.Error(err)
		}
	})
}

// Credentials that are rotated to another project's while the process runs: a server of a new
// Node's name is not that Node's there, although the right project was seen before, be it just now.
func TestNameMatchCountsForNothingWhenCredentialsAreRotatedToAnotherProject(t *testing.T) {
	for _, ago := range []time.Duration{0, time.Second, MetadataMaxAge} {
		t.Run(ago.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newGuarded(t, 2)
				notFound := func(ref cloud.InstanceRef) error {
					if ref.ProviderID != "" {
						return cloud.Errorf(cloud.KindNotFound, "none of ours")
					}
					return nil
				}
				for _, name := range []string{"new", "newer"} { // the second time the other project is no news
					b.want(0, "")
					b.cloud.add(name)
					b.nodes.register(name)
					b.cloud.set(func() { b.cloud.scope, b.cloud.findErr, b.cloud.getErr = "theirs", notFound, notFound })
					time.Sleep(ago)
					byName := cloud.InstanceRef{NodeName: name}
					if found, err := b.d.Lookup(t.Context(), byName, MetadataMaxAge, nil); err == nil {
						t.Fatalf("the new Node got %s of another project", found.ProviderID)
					}
					b.cloud.set(func() { b.cloud.scope, b.cloud.findErr, b.cloud.getErr = "ours", nil, nil })
					time.Sleep(MetadataMaxAge)
					if _, err := b.d.Lookup(t.Context(), byName, MetadataMaxAge, nil); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// A region that the cluster has never had a Node in gets its first one by name, as long as
// Nodes of the other region are seen.
func TestFirstNodeOfAnotherScopeIsFoundByNameWhenOthersAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, 2)
		b.want(0, "")
		b.cloud.add("new")
		b.nodes.register("new")
		b.cloud.set(func() { b.cloud.scope = "the other region" })
		if _, err := b.d.Lookup(t.Context(), cloud.InstanceRef{NodeName: "new"}, MetadataMaxAge, nil); err != nil {
			t.Error(err)
		}
	})
}

// In a new cluster without the machines' UUIDs all there is are names.
func TestNamesAreBelievedWhenTheClusterIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, 0)
		for k := range 10 {
			b.cloud.add(fmt.Sprint("node-", k))
			b.nodes.register(fmt.Sprint("node-", k))
		}
		b.want(0, "")
		if f, g := b.cloud.calls(); f != 1 || g != 0 {
			t.Errorf("%d Find and %d Get for ten new Nodes, want one Find", f, g)
		}
		for k := range 9 {
			b.nodes.initialize(k, fmt.Sprintf("fake:///id-of-node-%d", k))
		}
		b.want(0, "")
		b.lose(0, 2)
		b.lose(9, 10)
		b.want(3, "")
	})
}
