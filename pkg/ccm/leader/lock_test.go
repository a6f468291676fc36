package leader

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// recordLock is a lock whose record is in memory; it takes no record of the holder "fail".
type recordLock struct {
	resourcelock.Interface
	record    resourcelock.LeaderElectionRecord
	conflicts int // how many updates fail with a conflict
}

func (*recordLock) Identity() string { return "me" }
func (*recordLock) Describe() string { return "ns/lease" }
func (l *recordLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r := l.record
	return &r, nil, nil
}
func (l *recordLock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.conflicts > 0 {
		l.conflicts--
		return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "lease", errors.New("changed"))
	}
	if r.HolderIdentity == "fail" {
		return errors.New("refused")
	}
	l.record = r
	return nil
}

func TestLockIsUnhealthyWhenRenewalsStop(t *testing.T) {
	now := time.Now()
	l := newLock(&recordLock{}, 15*time.Second)
	l.now = func() time.Time { return now }
	renew := func(holder string) {
		_ = l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: holder}) // failing is part of the test
	}
	if err := l.Check(nil); err != nil {
		t.Errorf("a replica that never led: %v", err)
	}
	renew("me")
	now = now.Add(34 * time.Second)
	if err := l.Check(nil); err != nil {
		t.Errorf("within the lease and the grace: %v", err)
	}
	renew("fail")
	now = now.Add(2 * time.Second)
	if l.Check(nil) == nil {
		t.Error("a leader whose renewals fail is healthy")
	}
	renew("me")
	if err := l.Check(nil); err != nil {
		t.Errorf("renewed again: %v", err)
	}
	renew("") // released
	now = now.Add(time.Hour)
	if err := l.Check(nil); err != nil {
		t.Errorf("a replica that has given the lease up: %v", err)
	}
}

// The lease is given up only by its holder, and only when nothing acts under it any more.
func TestRelease(t *testing.T) {
	leader := resourcelock.LeaderElectionRecord{HolderIdentity: "me", LeaderTransitions: 7}
	for _, test := range []struct {
		name    string
		prepare func(l *Lock, record *recordLock)
		want    string
	}{
		{"the leader", func(*Lock, *recordLock) {}, ""},
		{"after a renewal whose answer was not awaited", func(_ *Lock, r *recordLock) { r.conflicts = 1 }, ""},
		{"while something acts", func(l *Lock, _ *recordLock) { l.act(1) }, "me"},
		{"when all has ended", func(l *Lock, _ *recordLock) { l.act(1); l.act(1); l.act(-1); l.act(-1) }, ""},
		{"when another replica has taken it", func(_ *Lock, r *recordLock) { r.record.HolderIdentity = "other" }, "other"},
	} {
		t.Run(test.name, func(t *testing.T) {
			record := &recordLock{}
			l := newLock(record, 15*time.Second)
			if err := l.Update(t.Context(), leader); err != nil {
				t.Fatal(err)
			}
			test.prepare(l, record)
			ended, end := context.WithCancel(t.Context())
			end()
			l.Release(ended)
			if record.record.HolderIdentity != test.want || record.record.LeaderTransitions != leader.LeaderTransitions {
				t.Errorf("the record is %+v, want holder %q", record.record, test.want)
			}
		})
	}
	other := &recordLock{record: resourcelock.LeaderElectionRecord{HolderIdentity: "other"}}
	newLock(other, time.Second).Release(t.Context())
	if other.record.HolderIdentity != "other" {
		t.Error("a replica that never led has released the lease")
	}
	(*Lock)(nil).Release(t.Context()) // no leader election
}

// What needs the lease counts as acting while it runs, and nothing else does.
func TestGuarding(t *testing.T) {
	l := newLock(&recordLock{}, time.Second)
	seen := -1
	look := manager.RunnableFunc(func(context.Context) error {
		seen = l.acting
		return errors.New("ended")
	})
	for _, test := range []struct {
		name     string
		runnable manager.Runnable
		needs    bool
	}{
		{"says nothing, so needs the lease", look, true},
		{"on every replica", EveryReplica{look}, false},
	} {
		g := l.Guarding(test.runnable)
		e, ok := g.(manager.LeaderElectionRunnable)
		if needs := !ok || e.NeedLeaderElection(); needs != test.needs {
			t.Errorf("%s: needs the lease: %t", test.name, needs)
		}
		if err := g.Start(t.Context()); err == nil || (seen == 1) != test.needs || l.acting != 0 {
			t.Errorf("%s: acting was %d and is %d, error %v", test.name, seen, l.acting, err)
		}
	}
	if r := (*Lock)(nil).Guarding(EveryReplica{look}); r == nil {
		t.Error("without leader election there is nothing to run")
	}
}

// After a requested end, the end of the election is no error; before it is one.
func TestElectionLostIsNoErrorWhenTheEndWasAskedFor(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	var log bytes.Buffer
	logger := SuppressElectionLost(ctx, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))).WithName("x").WithValues("a", 1).WithCallDepth(0)
	lost := errors.New(electionLost)
	logger.Error(lost, "first")
	end()
	logger.Error(lost, "second")
	logger.Error(errors.New("something else"), "third")
	text := log.String()
	for message, want := range map[string]bool{"first": true, "second": false, "third": true} {
		if got := strings.Contains(text, message); got != want {
			t.Errorf("the log has %q: %t, want %t:\n%s", message, got, want, text)
		}
	}
	if n := strings.Count(text, "lock_test.go:"); n != 2 {
		t.Errorf("%d of 2 lines name their caller:\n%s", n, text)
	}
}
