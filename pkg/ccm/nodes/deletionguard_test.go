package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

func TestOperatorConfirmsOnlyWhenTheAnnotationIsATimeSoon(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		value, problem string
		want           bool
	}{
		{value: ""},
		{value: "2026-01-31T12:30:00Z", want: true},
		{value: "2026-01-31T13:30:00+01:00", want: true},
		{value: "2026-01-31T11:59:59Z"},
		{value: "2026-01-31T12:00:00Z"},
		{value: "2026-02-01T12:00:00Z", want: true},
		{value: "2026-02-01T12:00:01Z", problem: "is more than 24h0m0s ahead"},
		{value: "true", problem: `"true" is not a time such as`},
		{value: strings.Repeat("x", 9999), problem: "is not a time"},
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}
		if test.value != "" {
			ns.Annotations = map[string]string{options.DeleteNodesUntil: test.value}
		}
		got := Operator(t.Context(), fake.NewClientset(ns), clocktesting.NewFakePassiveClock(now))
		if got.Confirmed != test.want || (got.Problem != "") != (test.problem != "") || !strings.Contains(got.Problem, test.problem) {
			t.Errorf("%.40q: %+v", test.value, got)
		}
		if len(got.Problem) > 250 {
			t.Errorf("%.40q: a problem of %d characters", test.value, len(got.Problem))
		}
	}
	if got := Operator(t.Context(), fake.NewClientset(), clocktesting.NewFakePassiveClock(now)); got.Confirmed || got.Problem == "" {
		t.Errorf("without the namespace: %+v", got)
	}
}

// Thousands of held Nodes make four Events, and again only after a while, when there are
// many more, or none.
func TestEventsAreFewWhenManyNodesAreHeld(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Now())
	var hold *deletionguard.Hold
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for k := range 4 {
		if err := indexer.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%04d", k)}}); err != nil {
			t.Fatal(err)
		}
	}
	events := record.NewFakeRecorder(100)
	r := &HeldReporter{Held: func() *deletionguard.Hold { return hold }, Nodes: corelisters.NewNodeLister(indexer), Recorder: events, Clock: now}
	held := func(n int) *deletionguard.Hold {
		h := &deletionguard.Hold{Verdict: deletionguard.Verdict{Message: "because"}}
		for k := range n {
			h.Nodes = append(h.Nodes, fmt.Sprintf("node-%04d", k))
		}
		return h
	}
	for k, step := range []struct {
		hold   *deletionguard.Hold
		wait   time.Duration
		events int
	}{
		{nil, 0, 0}, {held(1000), 0, 4}, {held(1500), reportEvery, 0}, {held(2000), reportEvery, 4}, {held(2000), remindEvery, 4},
		{nil, reportEvery, 1}, {nil, reportEvery, 0}, {held(1), reportEvery, 2},
	} {
		now.Step(step.wait)
		hold = step.hold
		r.look(t.Context())
		if n := len(events.Events); n != step.events {
			t.Errorf("step %d: %d Events, want %d", k, n, step.events)
		}
		for range len(events.Events) {
			<-events.Events
		}
	}
}
