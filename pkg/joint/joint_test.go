package joint

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func wantRules(t *testing.T, c *toyCloud, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, c.names()); diff != "" {
		t.Errorf("rules in the cloud (-want +got):\n%s", diff)
	}
}

func TestHundredServicesAreOneWrite(t *testing.T) {
	c := newToyCloud(t)
	p := start(t, c, Options{})
	all := services(100)
	if bad := p.refused(p.serve(all, open), cloud.KindRetryAfter); len(bad) > 0 {
		t.Errorf("%v are not served", bad)
	}
	if puts, _ := c.counts(); puts != 1 {
		t.Errorf("%d writes, want 1", puts)
	}
	wantRules(t, c, rulesOf(all, "ops/ssh"))
	if told := p.takeTold(); told != strings.Join(all, " ") {
		t.Errorf("told were %q, want each once", told)
	}
	p.wantNothingRemembered()
	p.serve(all, open)
	if puts, _ := c.counts(); puts != 0 {
		t.Errorf("%d writes although nothing has changed", puts)
	}
	p.wantNothingRemembered()
}

// One of 100 is refused by the cloud, and with it everything that is written at the same time. The
// others are served all the same; the next time it does not delay them.
func TestOtherServicesAreServedWhenOneIsRefused(t *testing.T) {
	for _, bad := range []string{"s000", "s049", "s050", "s077", "s099"} {
		c := newToyCloud(t)
		p := start(t, c, Options{})
		all := services(100)
		rule := func(text string) func(string) string {
			return func(name string) string {
				if name == bad {
					return wrong
				}
				return text + name
			}
		}
		good := slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == bad })
		if diff := cmp.Diff([]string{bad}, p.refused(p.serve(all, rule("443 ")), cloud.KindInvalid)); diff != "" {
			t.Errorf("refused (-want +got):\n%s", diff)
		}
		puts, _ := c.counts()
		t.Logf("%s is bad: %d writes, the refused ones included", bad, puts)
		if puts > 12 {
			t.Errorf("%d writes, want 12 at most", puts)
		}
		wantRules(t, c, rulesOf(good, "ops/ssh"))

		if got := p.refused(p.serve(all, rule("80 ")), cloud.KindInvalid); len(got) != 1 {
			t.Errorf("refused the second time: %v", got)
		}
		if puts, made := c.counts(); puts != 2 || made != 1 {
			t.Errorf("%d writes the second time, %d of them taken, want 2 and 1", puts, made)
		}
		if bad := p.refused(p.serve(all, open), cloud.KindInvalid); len(bad) > 0 {
			t.Errorf("refused although it was mended: %v", bad)
		}
		wantRules(t, c, rulesOf(all, "ops/ssh"))
		p.wantNothingRemembered()
	}
}

func TestThreeOfHundredAreRefused(t *testing.T) {
	c := newToyCloud(t)
	p := start(t, c, Options{})
	bad := []string{"s010", "s011", "s090"}
	errs := p.serve(services(100), func(name string) string {
		if slices.Contains(bad, name) {
			return wrong
		}
		return open(name)
	})
	puts, _ := c.counts()
	got := p.refused(errs, cloud.KindInvalid)
	for _, name := range bad {
		if !slices.Contains(got, name) {
			t.Errorf("%s was taken", name)
		}
	}
	if puts > maxPasses {
		t.Errorf("%d writes, want %d at most", puts, maxPasses)
	}
	for range 3 { // who was not looked at any more comes again, as a controller has it
		got = p.refused(p.serve(got, func(name string) string {
			if slices.Contains(bad, name) {
				return wrong
			}
			return open(name)
		}), cloud.KindInvalid)
	}
	if diff := cmp.Diff(bad, got); diff != "" {
		t.Errorf("refused in the end (-want +got):\n%s", diff)
	}
}

func TestLimitOfTheObject(t *testing.T) {
	c := newToyCloud(t)
	c.limit = 61
	p := start(t, c, Options{})
	got := p.refused(p.serve(services(100), open), cloud.KindQuota)
	if len(got) != 40 || len(c.names()) != 61 {
		t.Errorf("%d are refused and %d rules there, want 40 and 61", len(got), len(c.names()))
	}
	if puts, _ := c.counts(); puts > maxPasses {
		t.Errorf("%d writes, want %d at most", puts, maxPasses)
	}
}

func TestOutageIsNobodysFault(t *testing.T) {
	c := newToyCloud(t)
	p := start(t, c, Options{})
	c.before = func(_ int, drop func()) { drop() }
	all := services(100)
	if got := p.refused(p.serve(all, open), cloud.KindUnavailable); len(got) != 100 {
		t.Errorf("%d are told, want all", len(got))
	}
	if puts, _ := c.counts(); puts != 1 {
		t.Errorf("%d writes during the outage, want 1", puts)
	}
	p.wantNothingRemembered()
}

// Before and after each write the answer is lost and the process ends; the next one hears of three
// Services first. Nothing is removed of the others, and nothing is written twice.
func TestPartialSetAfterRestartRemovesNothing(t *testing.T) {
	for _, carriedOut := range []bool{false, true} {
		c := newToyCloud(t)
		first, second := services(60)[:40], services(60)[40:]
		p := start(t, c, Options{})
		p.serve(first, open)
		cut := func(_ int, drop func()) { drop() }
		c.mu.Lock()
		if c.before = cut; carriedOut {
			c.before, c.after = nil, cut
		}
		c.mu.Unlock()
		p.ask(second, open)
		p.settle()
		p.stop()
		c.mu.Lock()
		c.before, c.after = nil, nil
		c.mu.Unlock()

		p = start(t, c, Options{})
		c.counts()
		p.serve(first[:3], open)
		if puts, _ := c.counts(); puts != 0 {
			t.Errorf("carriedOut=%v: %d writes for what is there", carriedOut, puts)
		}
		want := rulesOf(first, "ops/ssh")
		if carriedOut {
			want = rulesOf(services(60), "ops/ssh")
		}
		wantRules(t, c, want)
		p.serve(services(60), open)
		wantWrites := 1
		if carriedOut {
			wantWrites = 0
		}
		if puts, _ := c.counts(); puts != wantWrites {
			t.Errorf("carriedOut=%v: %d writes for the rest, want %d", carriedOut, puts, wantWrites)
		}
		wantRules(t, c, rulesOf(services(60), "ops/ssh"))
	}
}

func TestDeletionRemovesExactlyItsOwn(t *testing.T) {
	c := newToyCloud(t)
	p := start(t, c, Options{})
	all := services(20)
	p.serve(all, open)
	c.set("lb/uid-of-another-cluster", "443")
	p.stop()
	p = start(t, c, Options{}) // knows nothing
	c.counts()
	remove := func(name string) error { return p.Delete(t.Context(), list, ref(name), "a wrong hint") }
	gone := append(services(7), "never-there")
	p.each(gone, remove)
	p.settle()
	if bad := p.refused(p.each(gone, remove), cloud.KindRetryAfter); len(bad) > 0 {
		t.Errorf("%v are not deleted", bad)
	}
	if puts, _ := c.counts(); puts != 1 {
		t.Errorf("%d writes for 7 deletions, want 1", puts)
	}
	wantRules(t, c, rulesOf(all[7:], "ops/ssh", "lb/uid-of-another-cluster"))
	p.wantNothingRemembered()
}

func TestWhatOthersWriteMeanwhileStays(t *testing.T) {
	c := newToyCloud(t)
	p := start(t, c, Options{})
	c.before = func(n int, _ func()) {
		if n <= 2 {
			c.set("ops/"+string(rune('a'+n)), "22")
		}
	}
	p.serve(services(5), open)
	if puts, made := c.counts(); puts != 3 || made != 1 {
		t.Errorf("%d writes, %d of them taken, want 3 and 1", puts, made)
	}
	wantRules(t, c, rulesOf(services(5), "ops/ssh", "ops/b", "ops/c"))

	c.before = func(int, func()) { c.set("ops/again", "22") }
	if got := p.refused(p.serve([]string{"late"}, open), cloud.KindStale); len(got) != 1 {
		t.Error("a list that changes all the time is written")
	}
	if puts, _ := c.counts(); puts != maxStale {
		t.Errorf("%d writes, want %d", puts, maxStale)
	}
}

// While a write is slow nobody waits for it, all who come meanwhile are in the next one, in the
// order in which they came, and so is who wants something else by now.
func TestSlowWritesGatherWhoComesMeanwhile(t *testing.T) {
	c := newToyCloud(t)
	p := start(t, c, Options{Tenants: 30})
	entered, release := make(chan struct{}), make(chan struct{})
	c.before = func(n int, _ func()) {
		if n == 1 {
			close(entered)
			<-release
		}
	}
	p.ask([]string{"first"}, open)
	for in := false; !in; {
		select {
		case <-entered:
			in = true
		case <-time.After(time.Millisecond):
			p.clock.Step(defaultQuiet)
		}
	}
	for _, name := range services(50) { // one after the other: order counts
		p.ask([]string{name}, open)
	}
	p.ask([]string{"first"}, func(string) string { return "8443" })
	close(release)
	p.settle()
	p.mu.Lock()
	passes := slices.Clone(p.passes)
	p.mu.Unlock()
	want := [][]string{{"first"}, services(50)[:30], append(services(50)[30:], "first")}
	if diff := cmp.Diff(want, passes); diff != "" {
		t.Errorf("passes (-want +got):\n%s", diff)
	}
	if puts, _ := c.counts(); puts != 3 {
		t.Errorf("%d writes, want 3", puts)
	}
	if _, err := p.Ensure(t.Context(), list, ref("first"), "8443"); err != nil {
		t.Errorf("the newest wish: %v", err)
	}
}

// A stream that never is quiet is cut into passes all the same.
func TestStreamDoesNotKeepThePassWaiting(t *testing.T) {
	c := newToyCloud(t)
	p := start(t, c, Options{Quiet: time.Second, Most: 5 * time.Second})
	for deadline := time.Now().Add(time.Minute); len(c.names()) == 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no pass while the stream goes on")
		}
		p.ask([]string{"s" + p.clock.Now().Format(time.RFC3339Nano)}, open)
		p.clock.Step(50 * time.Millisecond)
	}
}

func TestEndOfTheTermEndsASlowPass(t *testing.T) {
	c := newToyCloud(t)
	p := start(t, c, Options{Wait: time.Hour})
	entered, release := make(chan struct{}), make(chan struct{})
	c.before = func(int, func()) { close(entered); <-release }
	t.Cleanup(func() { close(release) })
	waiter := make(chan error, 1)
	go func() {
		_, err := p.Ensure(context.Background(), list, ref("web"), "443")
		waiter <- err
	}()
	for in := false; !in; {
		select {
		case <-entered:
			in = true
		case <-time.After(time.Millisecond):
			p.clock.Step(defaultQuiet)
		}
	}
	p.stop()
	if err := <-waiter; err == nil {
		t.Error("the write that was cut off is a success")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := p.Ensure(ended, list, ref("late"), "443"); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Errorf("Ensure after the end: %v, want KindRetryAfter", err)
	}
	if puts, _ := c.counts(); puts != 1 {
		t.Errorf("%d writes, want none after the end", puts)
	}
	p.end, p.options.Wait = func() {}, 0
	c.mu.Lock()
	c.before = nil
	c.mu.Unlock()
	p.Attach(t.Context(), nil)
	if bad := p.refused(p.serve([]string{"late"}, open), cloud.KindRetryAfter); len(bad) > 0 {
		t.Error("nothing is served in the next term")
	}
}

// Who waits gets the answer, and nobody is told.
func TestWaiting(t *testing.T) {
	c := newToyCloud(t)
	p := start(t, c, Options{Wait: time.Hour})
	done := make(chan map[string]error)
	go func() { done <- p.ask(services(30), open) }()
	for {
		select {
		case errs := <-done:
			if bad := p.refused(errs, cloud.KindRetryAfter); len(bad) > 0 {
				t.Errorf("%v are not served", bad)
			}
			if told := p.takeTold(); told != "" {
				t.Errorf("told were %q", told)
			}
			p.settle()
			p.wantNothingRemembered()
			return
		case <-time.After(time.Millisecond):
			p.clock.Step(defaultQuiet)
		}
	}
}

// Answers that nobody asks for are forgotten, also that somebody was refused.
func TestNothingIsRememberedForEver(t *testing.T) {
	c := newToyCloud(t)
	p := start(t, c, Options{})
	p.ask([]string{"left", "bad"}, func(name string) string {
		if name == "bad" {
			return wrong
		}
		return open(name)
	})
	p.settle()
	p.clock.Step(keep + time.Second)
	p.serve([]string{"other"}, open)
	p.wantNothingRemembered()
}

func TestPassThatDoesNotAnswerAll(t *testing.T) {
	o := New(func(context.Context, string, []Tenant[int]) ([]cloud.Result[int], error) { return nil, nil }, Options{Quiet: 1, Wait: time.Hour})
	if _, err := o.Ensure(t.Context(), list, ref("web"), 1); err == nil || !strings.Contains(err.Error(), "bug") {
		t.Errorf("a pass without answers: %v", err)
	}
}

// Where callers are few, those that wait must not keep others from coming.
func TestFewWaitThatAllCanCome(t *testing.T) {
	const few = 3
	c := newToyCloud(t)
	p := start(t, c, Options{Wait: time.Hour, Waiters: few, Tenants: 30, Quiet: time.Hour})
	var later []string
	errs := p.ask(services(30), open)
	for name, err := range errs {
		if cloud.KindOf(err) == cloud.KindRetryAfter {
			later = append(later, name)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	slices.Sort(later)
	if len(later) < 30-few {
		t.Errorf("%d have waited, want at most %d", 30-len(later), few)
	}
	p.settle()
	if told := p.takeTold(); told != strings.Join(later, " ") {
		t.Errorf("told were %q, want %q", told, later)
	}
	if bad := p.refused(p.ask(later, open), cloud.KindRetryAfter); len(bad) > 0 || p.Len() > 0 {
		t.Errorf("%v are not served, of %d something is remembered", bad, p.Len())
	}
	if puts, _ := c.counts(); puts != 1 {
		t.Errorf("%d writes, want 1", puts)
	}
}

// An answer is collected soon after the pass, or the pass is made again: what it says is not true any more.
func TestOldAnswerIsNotGivenOut(t *testing.T) {
	c := newToyCloud(t)
	p := start(t, c, Options{})
	p.ask([]string{"web"}, open)
	p.settle()
	p.clock.Step(keep + time.Second)
	if errs := p.serve([]string{"web"}, open); errs["web"] != nil {
		t.Errorf("error %v, want none after a pass of now", errs["web"])
	}
}
