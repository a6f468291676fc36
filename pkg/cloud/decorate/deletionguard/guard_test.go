package deletionguard

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func newTestGuard(c *testingclock.FakePassiveClock) *Guard {
	g := New(c, prometheus.NewGauge(prometheus.GaugeOpts{Name: "on"}), prometheus.NewGauge(prometheus.GaugeOpts{Name: "holding"}))
	return g
}

// A great loss has lasted from when it was first seen; one that was not seen for long begins anew, and so does one
// that was over meanwhile.
func TestLossLastsWhenItIsSeenWithoutGaps(t *testing.T) {
	c := testingclock.NewFakePassiveClock(time.Unix(1_800_000_000, 0))
	g := newTestGuard(c)
	for _, step := range []struct {
		pass   time.Duration
		beyond bool
		want   time.Duration
	}{
		{0, true, 0},
		{heldFor, true, heldFor},
		{heldFor, true, 2 * heldFor},
		{heldFor + 1, true, 0},
		{time.Second, true, time.Second},
		{time.Second, false, 0},
		{time.Second, true, 0},
	} {
		c.SetTime(c.Now().Add(step.pass))
		if got := g.lasted("a", step.beyond); got != step.want {
			t.Errorf("after %s: %s, want %s", step.pass, got, step.want)
		}
	}
	if got := g.lasted("b", true); got != 0 {
		t.Errorf("another scope's has lasted for %s", got)
	}
}

// A name that is not believed keeps no Node: there is none to be deleted.
func TestNothingIsHeldWhenAnInstanceIsFoundByItsName(t *testing.T) {
	g := newTestGuard(testingclock.NewFakePassiveClock(time.Unix(1_800_000_000, 0)))
	g.Configure(Limits{Percent: 10}, nil)
	ref := cloud.InstanceRef{NodeName: "n"}
	if v := g.Check(t.Context(), NameFound, ref, "a", Counts{ExistingLost: 3}); v.Reason != NameInForeignScope {
		t.Fatalf("got %+v", v)
	}
	if g.Engaged() || g.Held() != nil {
		t.Errorf("held: %+v", g.Held())
	}
	if v := g.Check(t.Context(), NameNotFound, ref, "a", Counts{ExistingLost: 3}); v.Allows() || !g.Engaged() || len(g.Held().Nodes) != 1 {
		t.Errorf("got %+v, held %+v", v, g.Held())
	}
}

// The operator's word is asked for every few seconds, however many Nodes are held, and counts from then on.
func TestOperatorIsAskedNowAndThenWhenManyAreHeld(t *testing.T) {
	c := testingclock.NewFakePassiveClock(time.Unix(1_800_000_000, 0))
	g, asked, word := newTestGuard(c), 0, Operator{}
	g.Configure(Limits{Percent: 10}, func(context.Context) Operator { asked++; return word })
	check := func() Verdict {
		return g.Check(t.Context(), IDNotFound, cloud.InstanceRef{NodeName: "n", ProviderID: "1"}, "a", Counts{})
	}
	for range 10 {
		if check().Allows() {
			t.Fatal("it is not held")
		}
	}
	word.Confirmed = true
	if c.SetTime(c.Now().Add(operatorEvery - 1)); check().Allows() || asked != 1 {
		t.Errorf("asked %d times, want once", asked)
	}
	if c.SetTime(c.Now().Add(1)); !check().Allows() || asked != 2 {
		t.Errorf("asked %d times, want twice", asked)
	}
}

// Instances of a cloud that does not say where they are prove nothing of any scope, however many they are.
func TestNoScopeIsProvenWhenInstancesHaveNone(t *testing.T) {
	e, byName := &evidence{}, cloud.InstanceRef{NodeName: "n"}
	for n := range maxNameMatches + 1 {
		e.saw(byName, &cloud.Instance{ProviderID: fmt.Sprint(n)})
	}
	e.saw(byName, &cloud.Instance{ProviderID: "a", Scope: "a"})
	if got := e.of("a", cloud.InstanceRef{NodeName: "n", ProviderID: "other"}); got != NoEvidence || len(e.nameMatches) != 1 {
		t.Errorf("evidence %d, %d names remembered", got, len(e.nameMatches))
	}
	if e.saw(cloud.InstanceRef{ProviderID: "1"}, &cloud.Instance{ProviderID: "1"}); len(e.proven) > 0 {
		t.Errorf("proven: %v", e.proven)
	}
}
