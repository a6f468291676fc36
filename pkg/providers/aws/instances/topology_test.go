package instances_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
)

const layer = "topology.k8s.aws/network-node-layer-"

// addTyped adds n instances of a type with nodes above them, if that is true.
func (w *world) addTyped(n int, typ types.InstanceType, nodes bool) []cloud.InstanceRef {
	var refs []cloud.InstanceRef
	launched := time.Now()
	for i := range n {
		id := fmt.Sprintf("i-%x%04d", []byte(typ)[:3], i)
		w.AddInstance(types.Instance{InstanceId: &id, InstanceType: typ, LaunchTime: &launched})
		if nodes {
			w.SetNodes(id, "nn-1", "nn-2", fmt.Sprintf("nn-3-%d", i/16))
		}
		refs = append(refs, byID(id)...)
	}
	return refs
}

// topologies are the numbers of instances in the calls for topologies since the last time.
func (w *world) topologies() []int {
	var out []int
	for _, r := range w.Requests() {
		if r.Action == "DescribeInstanceTopology" {
			n := 0
			for r.Form.Has(fmt.Sprintf("InstanceId.%d", n+1)) {
				n++
			}
			out = append(out, n)
		}
	}
	return out
}

func (w *world) expect(t *testing.T, what string, refs []cloud.InstanceRef, has bool, calls ...int) {
	t.Helper()
	for n, r := range w.Find(t.Context(), refs) {
		if r.Err != nil || (r.Value.Labels[layer+"3"] != "") != has {
			t.Errorf("%s: %s: %+v, %v", what, refs[n].ProviderID, r.Value, r.Err)
			break
		}
	}
	if got := w.topologies(); fmt.Sprint(got) != fmt.Sprint(calls) {
		t.Errorf("%s: asked about %v instances, want %v", what, got, calls)
	}
}

func TestTopologyIsAskedOnceAndForMany(t *testing.T) {
	w := newWorld(t, "")
	p5 := w.addTyped(150, types.InstanceTypeP548xlarge, true)
	w.expect(t, "a type that has one", p5, true, 100, 50)
	w.expect(t, "the same again", p5, true)
	m5 := w.addTyped(150, types.InstanceTypeM5Large, false)
	w.expect(t, "a type that has none", m5, false, 1)
	w.expect(t, "the same again", m5, false)
	g5 := w.addTyped(150, types.InstanceTypeG548xlarge, true)
	w.expect(t, "a type of which it is not known", g5, true, 1, 100, 49)
	trn := w.addTyped(2, types.InstanceTypeTrn132xlarge, false)
	w.expect(t, "instances that should have one", trn, false, 2)
	w.expect(t, "the same again", trn, false)
	if i, err := w.Get(t.Context(), p5[0]); err != nil || i.Labels[layer+"1"] != "nn-1" || i.Labels[layer+"2"] != "nn-2" || i.Labels[layer+"3"] != "nn-3-0" || i.Labels[layer+"4"] != "" {
		t.Errorf("%+v, %v", i, err)
	}
	stopped := w.addTyped(1, types.InstanceTypeHpc6a48xlarge, true)
	w.SetState(stopped[0].ProviderID[len("aws:///eu-central-1a/"):], types.InstanceStateNameStopped)
	w.expect(t, "one that does not run", stopped, false)
}

func TestTopologyPatternOfCloudConf(t *testing.T) {
	w := newWorld(t, "SupportedTopologyInstanceTypePattern = ^m5\n")
	w.expect(t, "a type of the pattern", w.addTyped(3, types.InstanceTypeM5Large, true), true, 3)
	w.expect(t, "a type of the usual pattern", w.addTyped(3, types.InstanceTypeP548xlarge, true), true, 1, 2)
}

func TestTopologyThatIsNotTold(t *testing.T) {
	for _, code := range []string{"UnsupportedOperation", "UnauthorizedOperation"} {
		w := newWorld(t, "")
		p5 := w.addTyped(150, types.InstanceTypeP548xlarge, true)
		w.Fail("DescribeInstanceTopology", apitest.Fault{Status: http.StatusBadRequest, Code: code, Message: "m"})
		w.expect(t, code, p5, false, 100)
		w.expect(t, code+" again", p5, false)
	}
}

func TestTopologyThatCannotBeRead(t *testing.T) {
	w := newWorld(t, "")
	old := time.Now().Add(-11 * time.Minute)
	refs := w.addTyped(120, types.InstanceTypeP548xlarge, true)
	id := "i-old"
	w.AddInstance(types.Instance{InstanceId: &id, InstanceType: types.InstanceTypeP548xlarge, LaunchTime: &old})
	all := append(refs, append(byID(id), w.addTyped(1, types.InstanceTypeM5Large, false)...)...)
	w.Fail("DescribeInstanceTopology", apitest.Fault{Status: http.StatusServiceUnavailable, Code: "RequestLimitExceeded", Message: "m"})
	for n, r := range w.Find(t.Context(), all) {
		if young := n < len(refs); (cloud.KindOf(r.Err) == cloud.KindThrottled) != young || (r.Err == nil) == young {
			t.Fatalf("%s: %+v, %v", all[n].ProviderID, r.Value, r.Err)
		}
	}
	w.topologies()
	w.expect(t, "once it can be read", refs, true, 100, 20)
}
