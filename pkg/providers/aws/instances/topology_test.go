package instances_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

const layer = "topology.k8s.aws/network-node-layer-"

// addTyped adds n instances of a type with nodes above them, if that is true.
func (w *world) addTyped(n int, typ string, nodes bool) []cloud.InstanceRef {
	var refs []cloud.InstanceRef
	launched := time.Now()
	for i := range n {
		id := fmt.Sprintf("i-%x%02x", []byte(typ)[:3], i)
		one := ec2.Instance{ID: id, Type: typ, Launched: launched}
		if nodes {
			one.NetworkNodes = []string{"nn-1", "nn-2", fmt.Sprintf("nn-3-%d", i/16)}
		}
		w.AddInstance(one)
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
	p5 := w.addTyped(150, "p5.48xlarge", true)
	w.expect(t, "a type that has one", p5, true, 100, 50)
	w.expect(t, "the same again", p5, true)
	m5 := w.addTyped(150, "m5.large", false)
	w.expect(t, "a type that has none", m5, false, 1)
	w.expect(t, "the same again", m5, false)
	g5 := w.addTyped(150, "g5.48xlarge", true)
	w.expect(t, "a type of which it is not known", g5, true, 1, 100, 49)
	trn := w.addTyped(2, "trn1.32xlarge", false)
	w.expect(t, "instances that should have one", trn, false, 2)
	w.expect(t, "the same again", trn, false)
	if i, err := w.Get(t.Context(), p5[0]); err != nil || i.Labels[layer+"1"] != "nn-1" || i.Labels[layer+"2"] != "nn-2" || i.Labels[layer+"3"] != "nn-3-0" || i.Labels[layer+"4"] != "" {
		t.Errorf("%+v, %v", i, err)
	}
	stopped := w.addTyped(1, "hpc6a.48xlarge", true)
	w.EC2.SetState(stopped[0].ProviderID[len("aws:///eu-central-1a/"):], ec2.Stopped)
	w.expect(t, "one that does not run", stopped, false)
}

func TestTopologyPatternOfCloudConf(t *testing.T) {
	w := newWorld(t, "SupportedTopologyInstanceTypePattern = ^m5\n")
	w.expect(t, "a type of the pattern", w.addTyped(3, "m5.large", true), true, 3)
	w.expect(t, "a type of the usual pattern", w.addTyped(3, "p5.48xlarge", true), true, 1, 2)
}

// TestComplaintEKSAMI2307TopologyNeverBlocks: where it is not known or not allowed to be read, Nodes come without it
// (awslabs/amazon-eks-ami#2307). TestTopologyThatCannotBeRead bounds how long an outage holds new ones back.
func TestComplaintEKSAMI2307TopologyNeverBlocks(t *testing.T) {
	for _, code := range []string{"UnsupportedOperation", "UnauthorizedOperation"} {
		w := newWorld(t, "")
		p5 := w.addTyped(150, "p5.48xlarge", true)
		w.Fail("DescribeInstanceTopology", apitest.Fault{Status: http.StatusBadRequest, Code: code, Message: "m"})
		w.expect(t, code, p5, false, 100)
		w.expect(t, code+" again", p5, false)
	}
}

func TestTopologyThatCannotBeRead(t *testing.T) {
	w := newWorld(t, "")
	old := time.Now().Add(-11 * time.Minute)
	refs := w.addTyped(120, "p5.48xlarge", true)
	id := w.AddInstance(ec2.Instance{Type: "p5.48xlarge", Launched: old}).ID
	all := append(refs, append(byID(id), w.addTyped(1, "m5.large", false)...)...)
	w.Fail("DescribeInstanceTopology", apitest.Fault{Status: http.StatusServiceUnavailable, Code: "RequestLimitExceeded", Message: "m"})
	for n, r := range w.Find(t.Context(), all) {
		if young := n < len(refs); (cloud.KindOf(r.Err) == cloud.KindThrottled) != young || (r.Err == nil) == young {
			t.Fatalf("%s: %+v, %v", all[n].ProviderID, r.Value, r.Err)
		}
	}
	w.topologies()
	w.expect(t, "once it can be read", refs, true, 100, 20)
}
