package nodeipam

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
)

// still makes a controller that does nothing by itself, and whose cache has the Nodes. Its first
// list is not read yet.
func still(t *testing.T, client kubernetes.Interface, nodes ...*corev1.Node) *Controller {
	t.Helper()
	metrics, err := NewMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	informer := informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes()
	for _, n := range nodes {
		if err := informer.Informer().GetIndexer().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	config := Config{ClusterCIDRs: mustPrefixes("10.244.0.0/23")}
	if errs := config.Validate(); len(errs) > 0 {
		t.Fatal(errs)
	}
	c := New(Cluster{client, informer, record.NewFakeRecorder(100)}, config, metrics)
	t.Cleanup(c.queue.ShutDown)
	return c
}

func node(name, uid string, cidrs ...string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}, Spec: corev1.NodeSpec{PodCIDRs: cidrs}}
}

func TestNodesThatNeedNoCIDRsReserveNone(t *testing.T) {
	leaving := node("leaving", "1")
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	c := still(t, fake.NewClientset(), leaving, node("served", "2", "10.244.1.0/24"), node("new", "3"))
	for _, name := range []string{"leaving", "served", "unknown"} {
		if n, _, err := c.reserve(name); n != nil || err != nil || len(c.ledger.held) > 0 {
			t.Errorf("%s: %v, %v, held %v: want nothing", name, n, err, c.ledger.held)
		}
	}
	if n, h, err := c.reserve("new"); n == nil || err != nil || len(h.cidrs) != 1 {
		t.Errorf("new: %v, %v, %v", n, h, err)
	}
}

// The cache may lag behind a Node that was deleted and has registered again.
func TestNodeOfTheSameNameGetsNoCIDRMeantForAnother(t *testing.T) {
	cluster := newCluster(t)
	made := cluster.create("again")
	before := made.DeepCopy()
	before.UID = "that-of-the-node-before"
	c := still(t, cluster.client, before)
	if err := c.give(t.Context(), before, mustPrefixes("10.244.0.0/24")); err == nil {
		t.Error("the patch was accepted")
	}
	if got := cluster.podCIDRs()["again"]; got != "" {
		t.Errorf("the Node has got %s", got)
	}
	if err := c.give(t.Context(), made, mustPrefixes("10.244.0.0/24")); err != nil {
		t.Error(err)
	}
}

func TestNodeThatAnotherReplacesLeavesItsCIDR(t *testing.T) {
	c := still(t, fake.NewClientset())
	before := node("again", "1", "10.244.0.0/24")
	c.seen(t.Context(), before)
	c.handlers(t.Context()).OnUpdate(before, node("again", "2", "10.244.1.0/24"))
	if h, ok := c.ledger.held["1"]; ok {
		t.Errorf("the Node before holds %v still", h.cidrs)
	}
	if _, ok := c.ledger.held["2"]; !ok {
		t.Error("the Node that there is holds nothing")
	}
}

// The list may have been read before the deletion that the watch has told of.
func TestNodeDeletedDuringTheFirstListHoldsNothing(t *testing.T) {
	c := still(t, fake.NewClientset())
	gone := node("gone", "1", "10.244.0.0/24")
	c.deleted(gone)
	c.observe(t.Context(), gone)
	if len(c.ledger.held) > 0 {
		t.Errorf("held: %v", c.ledger.held)
	}
}

func TestCIDRThatIsFreedWakesWhoWaits(t *testing.T) {
	c := still(t, fake.NewClientset())
	held := node("held", "1", "10.244.0.0/24")
	c.observe(t.Context(), held)
	c.waiting["waits"] = time.Now()
	c.deleted(node("other", "2"))
	if n := c.queue.Len(); n != 0 {
		t.Fatalf("%d woken although nothing was freed", n)
	}
	c.deleted(held)
	if n := c.queue.Len(); n != 1 {
		t.Errorf("%d woken, want 1", n)
	}
}
