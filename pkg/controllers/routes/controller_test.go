package routes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

// table is a cloud's routes.
type table struct {
	mu      sync.Mutex
	routes  map[path]cloud.Route
	applied []int        // how many routes were to be added, by call
	order   []string     // what was done, in order
	refuse  bool         // to add
	fail    error        // whatever is to be changed
	down    error        // what List answers
	attempt map[path]int // to add a route
}

func (x *table) List(context.Context, cloud.Cluster) ([]cloud.Route, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.down != nil {
		return nil, x.down
	}
	var out []cloud.Route
	for _, r := range x.routes {
		out = append(out, r)
	}
	return out, nil
}

func (x *table) Apply(_ context.Context, _ cloud.Cluster, add, remove []cloud.Route) []error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.applied = append(x.applied, len(add))
	errs := make([]error, len(add)+len(remove))
	var did []string
	for _, r := range add {
		did = append(did, fmt.Sprintf("+%s>%s", r.Destination, r.Hop()))
	}
	for _, r := range remove {
		did = append(did, fmt.Sprintf("-%s>%s", r.Destination, r.Hop()))
	}
	x.order = append(x.order, strings.Join(did, " "))
	if x.fail != nil {
		return slices.Repeat([]error{x.fail}, len(errs))
	}
	for k, r := range add {
		x.attempt[pathOf(r)]++
		if x.refuse {
			errs[k] = fmt.Errorf("refused")
			continue
		}
		x.routes[pathOf(r)] = ours(r)
	}
	for _, r := range remove {
		delete(x.routes, pathOf(r))
	}
	return errs
}

func (x *table) state() (recorded, calls int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range x.routes {
		if r.Ours {
			recorded++
		}
	}
	return recorded, len(x.applied)
}

// lab is a controller whose passes the test makes.
type lab struct {
	*Controller
	cloud *table
	// live is the API server, seen what the informer has seen of it; they are the same for most.
	live, seen *fake.Clientset
	events     *record.FakeRecorder
	now        *clocktesting.FakePassiveClock
}

// numbered is the n-th Node, with an address and a pod CIDR of its own.
func numbered(n int) *corev1.Node {
	return testNode(fmt.Sprintf("node-%d", n), []string{fmt.Sprintf("10.244.%d.0/24", n)}, fmt.Sprintf("10.0.0.%d", n+1))
}

// numberedRoute leads to the n-th Node.
func numberedRoute(n int) cloud.Route {
	return testRoute(fmt.Sprintf("10.244.%d.0/24", n), fmt.Sprintf("10.0.0.%d", n+1))
}

func numberedNodes(from, to int) (out []runtime.Object) {
	for n := from; n < to; n++ {
		out = append(out, numbered(n))
	}
	return out
}

// newLab makes a controller whose cloud has the first routes of numbered Nodes, as its own.
func newLab(t *testing.T, routes int, live, seen []runtime.Object) *lab {
	l := &lab{
		cloud: &table{routes: map[path]cloud.Route{}, attempt: map[path]int{}},
		live:  fake.NewClientset(live...), seen: fake.NewClientset(seen...),
		events: record.NewFakeRecorder(1000), now: clocktesting.NewFakePassiveClock(time.Now()),
	}
	for n := range routes {
		r := numberedRoute(n)
		l.cloud.routes[pathOf(r)] = ours(r)
	}
	factory := informers.NewSharedInformerFactory(l.seen, 0)
	metrics, err := NewMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Controller = New(Config{
		Client: l.live, Nodes: factory.Core().V1().Nodes(), Routes: l.cloud, Recorder: l.events, Period: time.Hour,
		Guard:   Guard{Limits: deletionguard.Limits{Count: 3, Percent: 45, Settle: 10 * time.Minute}, Release: func(time.Time) string { return "Say so." }},
		Metrics: metrics, Clock: l.now,
	})
	factory.Core().V1().Nodes().Informer()
	ctx, cancel := context.WithCancel(context.Background())
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	return l
}

// run lets the controller make its passes itself.
func (l *lab) run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// there are the destinations of the cloud's routes, with the step of time before a pass.
func (l *lab) after(ctx context.Context, step time.Duration) int {
	l.now.SetTime(l.now.Now().Add(step))
	l.pass(ctx)
	return len(l.cloud.routes)
}

// event is the next event, "" when there is none.
func (l *lab) event() string {
	select {
	case e := <-l.events.Events:
		return e
	default:
		return ""
	}
}

// startWithForeign runs a controller whose cloud has 120 Nodes' routes that somebody else made.
func startWithForeign(t *testing.T, refuse bool) *table {
	var nodes []runtime.Object
	for n := range 120 {
		node := numbered(n)
		node.Status.Conditions = []corev1.NodeCondition{condition(true)}
		nodes = append(nodes, node)
	}
	l := newLab(t, 0, nodes, nodes)
	l.cloud.refuse = refuse
	for n := range nodes {
		r := numberedRoute(n)
		l.cloud.routes[pathOf(r)] = r
	}
	l.run(t)
	return l.cloud
}

// Thousands of routes of another controller are recorded without the period between the parts.
func TestRecordingDoesNotWaitForThePeriod(t *testing.T) {
	x := startWithForeign(t, false)
	deadline := time.Now().Add(30 * time.Second)
	for recorded := 0; recorded < 120; recorded, _ = x.state() {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 120 routes are recorded", recorded)
		}
		time.Sleep(20 * time.Millisecond)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if got := fmt.Sprint(x.applied); got != "[50 50 20]" {
		t.Errorf("parts %s, want [50 50 20]", got)
	}
}

// What cannot be recorded waits for the period.
func TestRefusedRecordingWaits(t *testing.T) {
	x := startWithForeign(t, true)
	time.Sleep(3 * pauseMin)
	if recorded, calls := x.state(); recorded != 0 || calls != 1 {
		t.Errorf("%d attempts, %d recorded, want one attempt", calls, recorded)
	}
}
