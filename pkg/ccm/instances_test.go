package ccm

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

// oneAnswer is a cloud that gives everyone the same answer.
type oneAnswer struct {
	instance *cloud.Instance
	err      error
	asked    int
}

func (o *oneAnswer) Find(_ context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	o.asked++
	out := make([]cloud.Result[*cloud.Instance], len(refs))
	for k := range out {
		out[k] = cloud.Result[*cloud.Instance]{Value: o.instance, Err: o.err}
	}
	return out
}

func (o *oneAnswer) Get(context.Context, cloud.InstanceRef) (*cloud.Instance, error) {
	o.asked++
	return o.instance, o.err
}

func testInstances(t *testing.T, answer *oneAnswer) *instances {
	t.Helper()
	p, err := decorate.New(&cloud.Provider{Name: "test", Instances: answer, Ready: func(context.Context) error { return nil }},
		decorate.Options{Reads: decorate.Policy{Attempts: 1, BackoffBase: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	a := newAdapter(ctx, adapterConfig{provider: p, monitorPeriod: time.Second,
		nodes: corelisters.NewNodeLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}))})
	t.Cleanup(func() { end(); a.end() })
	return a.instances
}

func instanceNode(providerID string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NodeSpec{ProviderID: providerID, Taints: taints}}
}

// Only "not found" lets the framework delete a Node, and no error lets it taint one.
func TestInstanceErrorsAreNoAnswers(t *testing.T) {
	missing := cloud.Errorf(cloud.KindNotFound, "no such server")
	failures := map[string]error{
		"no kind":            errors.New("connection reset"),
		"joined with others": errors.Join(missing, errors.New("connection reset")),
	}
	for k := cloud.KindUnknown; k <= cloud.KindFailed; k++ {
		if k != cloud.KindNotFound {
			failures[k.String()] = cloud.Errorf(k, "failed")
		}
	}
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			i := testInstances(t, &oneAnswer{err: failure})
			if _, err := i.InstanceExists(t.Context(), instanceNode("test:///1")); err == nil {
				t.Error("InstanceExists takes a failure for an answer")
			}
			if shutdown, err := i.InstanceShutdown(t.Context(), instanceNode("test:///1")); err == nil || shutdown {
				t.Errorf("InstanceShutdown takes a failure for the answer %t", shutdown)
			}
			if _, err := i.InstanceMetadata(t.Context(), instanceNode("test:///1")); err == nil {
				t.Error("InstanceMetadata takes a failure for an answer")
			}
		})
	}
	i := testInstances(t, &oneAnswer{err: missing})
	if exists, err := i.InstanceExists(t.Context(), instanceNode("test:///1")); exists || err != nil {
		t.Errorf("not found: got %t, %v", exists, err)
	}
	if shutdown, err := i.InstanceShutdown(t.Context(), instanceNode("test:///1")); err == nil || shutdown {
		t.Errorf("not found: InstanceShutdown says %t, %v", shutdown, err)
	}
}

// A node of another cloud is neither looked up nor touched.
func TestForeignInstances(t *testing.T) {
	answer := &oneAnswer{err: cloud.Errorf(cloud.KindNotFound, "no such server")}
	i := testInstances(t, answer)
	node := instanceNode("other://1")
	if exists, err := i.InstanceExists(t.Context(), node); !exists || err != nil {
		t.Errorf("InstanceExists: got %t, %v", exists, err)
	}
	if shutdown, err := i.InstanceShutdown(t.Context(), node); shutdown || err != nil {
		t.Errorf("InstanceShutdown: got %t, %v", shutdown, err)
	}
	if m, err := i.InstanceMetadata(t.Context(), node); err != nil || m == nil || m.ProviderID != node.Spec.ProviderID || len(m.NodeAddresses) > 0 {
		t.Errorf("InstanceMetadata: got %+v, %v", m, err)
	}
	waiting := instanceNode("other://1", corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider})
	if m, err := i.InstanceMetadata(t.Context(), waiting); m != nil || err != nil {
		t.Errorf("InstanceMetadata of an uninitialized node: got %+v, %v", m, err)
	}
	if answer.asked > 0 {
		t.Errorf("the cloud was asked %d times", answer.asked)
	}
}

// Nothing reaches the cloud after the term, and what is refused then is no answer either.
func TestInstancesAfterTheTerm(t *testing.T) {
	answer := &oneAnswer{err: cloud.Errorf(cloud.KindNotFound, "no such server")}
	i := testInstances(t, answer)
	ctx, end := context.WithCancel(t.Context())
	i.calls = newCalls(ctx)
	end()
	if _, err := i.InstanceExists(context.WithoutCancel(ctx), instanceNode("test:///1")); !errors.Is(err, errTermEnded) || answer.asked > 0 {
		t.Errorf("got error %v after %d questions", err, answer.asked)
	}
}

// What the deletion guard holds is neither gone nor shut down, and no error for each Node and
// cycle in the log.
func TestHeldNodesExist(t *testing.T) {
	missing := &cloud.Error{Kind: cloud.KindNotFound, Scope: "elsewhere", Err: errors.New("no such server")}
	i := testInstances(t, &oneAnswer{err: missing})
	node := instanceNode("test:///1")
	if exists, err := i.InstanceExists(t.Context(), node); !exists || err != nil {
		t.Errorf("exists: %t, %v", exists, err)
	}
	if shutdown, err := i.InstanceShutdown(t.Context(), node); shutdown || err != nil {
		t.Errorf("shut down: %t, %v", shutdown, err)
	}
	if metadata, err := i.InstanceMetadata(t.Context(), node); metadata != nil || !deletionguard.IsHeld(err) {
		t.Errorf("metadata: %+v, %v", metadata, err)
	}
	if hold := i.provider.Nodes.Held(); hold == nil || len(hold.Nodes) != 1 {
		t.Errorf("held: %+v", hold)
	}
}
