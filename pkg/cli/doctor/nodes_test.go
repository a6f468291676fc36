package doctor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
)

// half has the instances of every second Node, and counts how it is asked.
type half struct{ finds, gets int }

func (h *half) answer(ref cloud.InstanceRef) (*cloud.Instance, error) {
	if strings.HasSuffix(ref.NodeName, "-gone") {
		return nil, &cloud.Error{Kind: cloud.KindNotFound, Scope: "here", Err: fmt.Errorf("no instance %s", ref.NodeName)}
	}
	return &cloud.Instance{ProviderID: ref.ProviderID, Name: ref.NodeName, Scope: "here"}, nil
}

func (h *half) Find(_ context.Context, refs []cloud.InstanceRef) (out []cloud.Result[*cloud.Instance]) {
	h.finds++
	for _, ref := range refs {
		i, err := h.answer(ref)
		out = append(out, cloud.Result[*cloud.Instance]{Value: i, Err: err})
	}
	return out
}

func (h *half) Get(_ context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	h.gets++
	return h.answer(ref)
}

// TestMissingInstancesCostFewCalls: where a project was emptied, or half of it, each Node is told of, and only some cost a call of their own.
func TestMissingInstancesCostFewCalls(t *testing.T) {
	const each = 100
	h := &half{}
	provider, err := decorate.New(&cloud.Provider{Name: "fake", Instances: h, Ready: func(context.Context) error { return nil }}, caller.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Close()
	p := &patient{cloud: provider, instances: map[string]*instance{}}
	for n := range each {
		for _, name := range []string{"is-here", "gone"} {
			name = fmt.Sprintf("node-%d-%s", n, name)
			p.nodes = append(p.nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "fake:///" + name}})
		}
	}
	found, err := checkNodes(t.Context(), p)
	if err != nil || len(found) != each || h.finds != 1 || h.gets != mostMissing {
		t.Errorf("%d findings, %v, by %d reads of many and %d of one; want %d, by 1 and %d", len(found), err, h.finds, h.gets, each, mostMissing)
	}
	for _, f := range found {
		if !strings.HasSuffix(f.Object, "-gone") || !strings.Contains(f.Message, " is not there: ") {
			t.Errorf("%s: %s", f.Object, f.Message)
		}
	}
	if len(p.instances) != 2*each {
		t.Errorf("%d instances are noted, want %d", len(p.instances), 2*each)
	}
}

// A Node that is young or not initialized may still get its pod CIDR, and where none has one nobody gives any.
func TestNodesThatNeedNoPodCIDRYet(t *testing.T) {
	now := time.Now()
	p := &patient{clock: clocktesting.NewFakePassiveClock(now)}
	made := func(age time.Duration, edit func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: age.String(), CreationTimestamp: metav1.NewTime(now.Add(-age))}}
		if edit != nil {
			edit(n)
		}
		return n
	}
	routed := made(time.Hour, func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.98.0.0/24"} })
	young, old := made(fresh, nil), made(time.Hour, nil)
	waits := made(time.Hour, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
	})
	if found := p.routes([]*corev1.Node{routed, young, waits}); len(found) != 0 {
		t.Errorf("%+v", found)
	}
	if found := p.routes([]*corev1.Node{old}); len(found) != 0 {
		t.Errorf("without pod CIDRs: %+v", found)
	}
	if found := p.routes([]*corev1.Node{routed, old}); len(found) != 1 {
		t.Errorf("%+v", found)
	}
}
