package nodeipam

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	v1core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// given are the pod CIDRs that a cloud has given instances, by provider ID.
type given struct {
	mu    sync.Mutex
	cidrs map[string][]netip.Prefix
	asked map[string]int // by the Node's name
}

func (g *given) find(_ context.Context, n *corev1.Node) (*cloud.Instance, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked[n.Name]++
	cidrs, ok := g.cidrs[n.Spec.ProviderID]
	if !ok {
		return nil, errors.New("no answer")
	}
	return &cloud.Instance{ProviderID: n.Spec.ProviderID, PodCIDRs: cidrs}, nil
}

// runFromCloud starts a FromCloud until the test's end.
func (c *cluster) runFromCloud(g *given) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	nodes := informers.NewSharedInformerFactory(c.client, 0)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&v1core.EventSinkImpl{Interface: c.client.CoreV1().Events("")})
	owns := func(n *corev1.Node) bool { return !strings.HasPrefix(n.Spec.ProviderID, "other:") }
	f := NewFromCloud(Cluster{c.client, nodes.Core().V1().Nodes(), broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "cidrAllocator"})}, owns, g.find)
	nodes.Core().V1().Nodes().Informer()
	nodes.StartWithContext(ctx)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
		broadcaster.Shutdown()
		nodes.Shutdown()
	})
}

func (c *cluster) setProviderID(node, id string) {
	c.t.Helper()
	if _, err := c.client.CoreV1().Nodes().Patch(c.t.Context(), node, types.MergePatchType, []byte(`{"spec":{"providerID":"`+id+`"}}`), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// Nodes get what the cloud has given their instances, as soon as they are known to be these.
func TestNodesGetThePodCIDRsOfTheirInstances(t *testing.T) {
	c := newCluster(t)
	g := &given{asked: map[string]int{}, cidrs: map[string][]netip.Prefix{
		"fake:///both": mustPrefixes("10.244.7.0/24", "fd00:0:0:7::/112"), "fake:///none": nil, "fake:///kept": mustPrefixes("10.244.9.0/24"),
		"other:///1": mustPrefixes("10.244.1.0/24"), "fake:///bad": mustPrefixes("10.244.2.0/24", "10.244.3.0/24"),
	}}
	c.create("both")
	c.setProviderID("both", "fake:///both")
	c.create("kept", "10.244.8.0/24")
	c.setProviderID("kept", "fake:///kept")
	c.create("foreign")
	c.setProviderID("foreign", "other:///1")
	c.create("unknown")
	c.runFromCloud(g)
	c.create("none")
	c.setProviderID("none", "fake:///none")
	c.create("bad")
	c.setProviderID("bad", "fake:///bad")
	c.wantEvent("none", "CIDRNotAvailable", "the cloud has given its instance fake:///none none")
	c.wantEvent("bad", "CIDRAssignmentFailed", "10.244.3.0/24")
	g.mu.Lock()
	g.cidrs["fake:///none"] = mustPrefixes("10.244.5.0/24")
	g.mu.Unlock()
	want := map[string]string{"both": "10.244.7.0/24,fd00:0:0:7::/112", "kept": "10.244.8.0/24", "foreign": "", "unknown": "", "none": "10.244.5.0/24", "bad": ""}
	eventually.Met(t, func() string { return cmp.Diff(want, c.podCIDRs()) })
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked["both"] != 1 || g.asked["kept"]+g.asked["foreign"]+g.asked["unknown"] > 0 {
		t.Errorf("questions by Node: %v", g.asked)
	}
}
