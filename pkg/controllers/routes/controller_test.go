package routes

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// table is a cloud's routes.
type table struct {
	mu      sync.Mutex
	routes  map[path]cloud.Route
	applied []int // how many routes were to be added, by call
	refuse  bool
}

func (x *table) List(context.Context, cloud.Cluster) ([]cloud.Route, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
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
	for k, r := range add {
		if x.refuse {
			errs[k] = fmt.Errorf("refused")
			continue
		}
		x.routes[pathOf(r)] = ours(r)
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

// startWithForeign runs a controller whose cloud has 120 Nodes' routes that somebody else made.
func startWithForeign(t *testing.T, refuse bool) *table {
	x := &table{routes: map[path]cloud.Route{}, refuse: refuse}
	var nodes []runtime.Object
	for n := range 120 {
		cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(n), 0}), 24)
		hop := netip.AddrFrom4([4]byte{10, 0, 0, byte(n + 1)})
		r := cloud.Route{Destination: cidr, NextHop: hop}
		x.routes[pathOf(r)] = r
		node := testNode(fmt.Sprintf("node-%d", n), []string{cidr.String()}, hop.String())
		node.Status.Conditions = []corev1.NodeCondition{condition(true)}
		nodes = append(nodes, node)
	}
	client := fake.NewClientset(nodes...)
	factory := informers.NewSharedInformerFactory(client, 0)
	c := New(client, factory.Core().V1().Nodes(), x, cloud.Cluster{}, record.NewFakeRecorder(1000), time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	factory.Core().V1().Nodes().Informer()
	factory.StartWithContext(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	})
	return x
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
