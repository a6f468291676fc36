package instancecache

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
)

// Not found is what the direct read says, whatever the batch said.
func TestNotFoundIsConfirmed(t *testing.T) {
	fails := func(err error) func(cloud.InstanceRef) error {
		return func(cloud.InstanceRef) error { return err }
	}
	notFound := cloud.Errorf(cloud.KindNotFound, "the list does not have it")
	for _, test := range []struct {
		name          string
		findErr       error
		getErr        error
		exists        bool
		want          cloud.Kind
		ok            bool
		finds, gets   int
		contradiction float64
	}{
		{name: "gone", findErr: notFound, want: cloud.KindNotFound, finds: 1, gets: 1},
		{name: "list empty, read finds it", findErr: notFound, exists: true, ok: true, finds: 1, gets: 1, contradiction: 1},
		{name: "read denied", findErr: notFound, getErr: cloud.Errorf(cloud.KindDenied, "401"), want: cloud.KindDenied, finds: 1, gets: 1},
		{name: "read broken", findErr: notFound, getErr: errors.New("500"), want: cloud.KindUnknown, finds: 1, gets: 4},
		{name: "read throttled", findErr: notFound, getErr: cloud.Errorf(cloud.KindThrottled, "429"), want: cloud.KindThrottled, finds: 1, gets: 4},
		{name: "read not clear", findErr: notFound, getErr: errors.Join(notFound, errors.New("500")), want: cloud.KindUnknown, finds: 1, gets: 4},
		{name: "list denied", findErr: cloud.Errorf(cloud.KindDenied, "403"), want: cloud.KindDenied, finds: 1},
		{name: "list broken", findErr: errors.New("500"), want: cloud.KindUnknown, finds: 4},
		{name: "list throttled", findErr: cloud.Errorf(cloud.KindThrottled, "429"), want: cloud.KindThrottled, finds: 4},
		{name: "list ambiguous", findErr: cloud.Errorf(cloud.KindInvalid, "two servers"), want: cloud.KindInvalid, finds: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeInstances(0)
				f.findErr, f.getErr = fails(test.findErr), fails(test.getErr)
				if test.exists {
					f.add("node-0")
				}
				m := newMetrics(t)
				d := cached(t, f, caller.Options{Metrics: m})
				ref := cloud.InstanceRef{NodeName: "node-0", ProviderID: "fake:///id-of-node-0"}
				instance, err := d.Lookup(t.Context(), ref, MetadataMaxAge, nil)
				if test.ok != (err == nil) || test.ok != (instance != nil) {
					t.Fatalf("got %v, %v", instance, err)
				}
				if got := cloud.KindOf(err); got != test.want {
					t.Errorf("got kind %v (%v), want %v", got, err, test.want)
				}
				f.wantCalls(t, test.finds, test.gets)
				wantMetric(t, m.Contradictions.WithLabelValues("fake"), test.contradiction)
			})
		})
	}
}

// What a batch did not have is asked for directly again, each time, and no new batch.
func TestNotFoundIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, pop := newFakeInstances(3), newNodes(4)
		d := cached(t, f, caller.Options{})
		all := &Peers{List: pop.list}
		missing := cloud.InstanceRef{NodeName: "node-3"}
		mustFind(t, d, cloud.InstanceRef{NodeName: "node-0"}, MetadataMaxAge, all)
		for n := range 3 {
			if _, err := d.Lookup(t.Context(), missing, MetadataMaxAge, all); !cloud.IsNotFound(err) {
				t.Fatalf("got %v, want not found", err)
			}
			f.wantCalls(t, 1, n+1)
		}
		f.add("node-3")
		mustFind(t, d, missing, MetadataMaxAge, all)
		f.wantCalls(t, 1, 4)
		mustFind(t, d, missing, MetadataMaxAge, all) // the direct read's answer is kept
		f.wantCalls(t, 1, 4)
		f.remove("node-3")
		time.Sleep(MetadataMaxAge)
		if _, err := d.Lookup(t.Context(), missing, MetadataMaxAge, all); !cloud.IsNotFound(err) {
			t.Fatalf("got %v, want not found", err)
		}
		f.wantCalls(t, 2, 5)
	})
}

func TestConfirmationsAreSharedAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, pop := newFakeInstances(100), newNodes(100)
		f.hidden, f.latency = true, time.Second
		d := cached(t, f, caller.Options{})
		all := &Peers{List: pop.list}
		var wg sync.WaitGroup
		for _, ref := range pop.list() {
			for range 3 {
				wg.Go(func() { mustFind(t, d, ref, MetadataMaxAge, all) })
			}
		}
		wg.Wait()
		f.wantCalls(t, 1, 100)
		if f.peak != confirmations {
			t.Errorf("%d direct reads at a time, want %d", f.peak, confirmations)
		}
	})
}

// A slow batch that began before a direct read does not undo what the direct read found.
func TestLaterReadWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeInstances(1)
		f.hidden, f.latency = true, 10*time.Second
		d := cached(t, f, caller.Options{})
		ref := cloud.InstanceRef{NodeName: "node-0"}
		var wg sync.WaitGroup
		wg.Go(func() { d.read(t.Context(), []cloud.InstanceRef{ref}) })
		time.Sleep(time.Second)
		f.set(func() { f.latency = 0 })
		if _, err := d.get(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		mustFind(t, d, ref, time.Minute, nil)
		f.wantCalls(t, 1, 1)
	})
}

// While the cloud fails the last answer is served as long as its asker allows, no longer;
// a controller that goes through its nodes does not storm the cloud; and it goes on as
// soon as the cloud is back.
func TestOutage(t *testing.T) {
	for _, kind := range []cloud.Kind{cloud.KindDenied, cloud.KindUnknown} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, pop := newFakeInstances(500), newNodes(500)
				d := cached(t, f, caller.Options{})
				all := &Peers{List: pop.list}
				mustFind(t, d, pop.list()[0], MetadataMaxAge, all)
				f.set(func() { f.findErr = func(cloud.InstanceRef) error { return cloud.Errorf(kind, "down") } })
				time.Sleep(MetadataMaxAge - time.Second)
				mustFind(t, d, pop.list()[1], MetadataMaxAge, all)
				f.wantCalls(t, 1, 0)
				time.Sleep(time.Second)
				for _, ref := range pop.list() {
					_, err := d.Lookup(t.Context(), ref, MetadataMaxAge, all)
					if err == nil || cloud.KindOf(err) != kind {
						t.Fatalf("got %v, want an error of kind %v", err, kind)
					}
				}
				if finds, gets := f.calls(); finds > 6 || gets != 0 {
					t.Errorf("the outage cost %d Find and %d Get", finds-1, gets)
				}
				f.set(func() { f.findErr = nil })
				time.Sleep(failureHold)
				for _, ref := range pop.list() {
					mustFind(t, d, ref, MetadataMaxAge, all)
				}
			})
		})
	}
}

// A batch that is given up says nothing about the cloud.
func TestLeavingIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeInstances(1)
		f.latency = time.Second
		d := cached(t, f, caller.Options{})
		ref := cloud.InstanceRef{NodeName: "node-0"}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if r := d.read(ctx, []cloud.InstanceRef{ref}); r[0].Err == nil || cloud.IsNotFound(r[0].Err) {
			t.Errorf("got %v", r[0].Err)
		}
		mustFind(t, d, ref, time.Minute, nil)
	})
}

func TestEntryAnswers(t *testing.T) {
	byName, byID := cloud.InstanceRef{NodeName: "n"}, cloud.InstanceRef{NodeName: "n", ProviderID: "fake:///1"}
	other := cloud.InstanceRef{NodeName: "n", ProviderID: "fake:///2"}
	instance := &cloud.Instance{ProviderID: "fake:///1"}
	for name, test := range map[string]struct {
		asked    cloud.InstanceRef
		instance *cloud.Instance
		ref      cloud.InstanceRef
		want     bool
	}{
		"same ref":                        {byName, instance, byName, true},
		"same ref, absent":                {byID, nil, byID, true},
		"by name, then by its ID":         {byName, instance, byID, true},
		"by name, then by another ID":     {byName, instance, other, false},
		"by name and absent, then by ID":  {byName, nil, byID, false},
		"by ID, then by name":             {byID, instance, byName, false},
		"by ID without one, then by name": {byID, &cloud.Instance{}, byName, false},
		"spelled otherwise":               {other, instance, byID, true},
	} {
		e := entry{ref: test.asked, instance: test.instance, arrived: time.Unix(1, 0)}
		if got := e.answers(test.ref); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// brokenInstances breaks the contract.
type brokenInstances struct {
	answers []cloud.Result[*cloud.Instance]
}

func (b *brokenInstances) Find(context.Context, []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	return b.answers
}

func (b *brokenInstances) Get(context.Context, cloud.InstanceRef) (*cloud.Instance, error) {
	return nil, nil
}

func TestBrokenProviderIsAnError(t *testing.T) {
	notFound := cloud.Result[*cloud.Instance]{Err: cloud.Errorf(cloud.KindNotFound, "no")}
	for name, answers := range map[string][]cloud.Result[*cloud.Instance]{
		"no answers": nil, "too many answers": {notFound, notFound}, "empty answer": {{}}, "empty direct read": {notFound},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := cached(t, &brokenInstances{answers: answers}, caller.Options{})
				instance, err := d.Lookup(t.Context(), cloud.InstanceRef{NodeName: "n"}, time.Minute, nil)
				if err == nil || instance != nil || cloud.KindOf(err) != cloud.KindUnknown {
					t.Errorf("got %v, %v", instance, err)
				}
			})
		})
	}
}
