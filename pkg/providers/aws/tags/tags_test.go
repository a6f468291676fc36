package tags

import (
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func of(pairs ...string) []types.Tag {
	var out []types.Tag
	for n := 0; n < len(pairs); n += 2 {
		out = append(out, types.Tag{Key: &pairs[n], Value: &pairs[n+1]})
	}
	return out
}

func TestHas(t *testing.T) {
	for _, tt := range []struct {
		tags    []types.Tag
		cluster string
		want    bool
	}{
		{nil, "c", false},
		{[]types.Tag{{}}, "c", false},
		{of("Name", "c"), "c", false},
		{of("kubernetes.io/cluster/c", "owned"), "c", true},
		{of("kubernetes.io/cluster/c", ""), "c", true},
		{of("kubernetes.io/cluster/c2", "owned"), "c", false},
		{of("kubernetes.io/cluster/d", "shared", "kubernetes.io/cluster/c", "shared"), "c", true},
		{of("KubernetesCluster", "c"), "c", true},
		{of("KubernetesCluster", "d"), "c", false},
		{of("kubernetes.io/cluster/", "owned", "KubernetesCluster", ""), "", false},
	} {
		if got := Has(tt.tags, tt.cluster); got != tt.want {
			t.Errorf("%v of %s: %t", tt.tags, tt.cluster, got)
		}
	}
}

func TestClusterOf(t *testing.T) {
	for _, tt := range []struct {
		tags      []types.Tag
		want, err string
	}{
		{of("kubernetes.io/cluster/c", "owned", "Name", "n"), "c", ""},
		{of("KubernetesCluster", "c"), "c", ""},
		{of("KubernetesCluster", "c", "kubernetes.io/cluster/c", "owned"), "c", ""},
		{of("kubernetes.io/cluster/", "owned"), "", "it has no tag kubernetes.io/cluster/<ID>"},
		{nil, "", "it has no tag kubernetes.io/cluster/<ID>"},
		{of("kubernetes.io/cluster/d", "shared", "kubernetes.io/cluster/c", "owned"), "", "its tags name 2 clusters (c, d)"},
		{of("KubernetesCluster", "d", "kubernetes.io/cluster/c", "owned"), "", "its tags name 2 clusters (c, d)"},
	} {
		got, err := ClusterOf(tt.tags)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%v: %q, %v", tt.tags, got, err)
		}
	}
}

func TestOwnedAndFree(t *testing.T) {
	for _, tt := range []struct {
		tags        []types.Tag
		owned, free bool
	}{
		{nil, false, true},
		{of("kubernetes.io/cluster/c", "owned"), true, false},
		{of("kubernetes.io/cluster/c", "shared"), false, false},
		{of("kubernetes.io/cluster/d", "owned"), false, false},
		{of("KubernetesCluster", "c"), true, true},
		{of("KubernetesCluster", "d"), false, true},
		{of("kubernetes.io/cluster/c", "owned", "elbv2.k8s.aws/cluster", "c"), false, false},
	} {
		if owned, free := Owned(tt.tags, "c"), Free(tt.tags); owned != tt.owned || free != tt.free {
			t.Errorf("%v: owned %t, free %t", tt.tags, owned, free)
		}
	}
	if Owned(of("KubernetesCluster", ""), "") {
		t.Error("nothing is one's without a name")
	}
}

func TestNew(t *testing.T) {
	more := map[string]string{"a": "b", "kubernetes.io/cluster/c": "shared"}
	if got := New("c", false, more); len(got) != 2 || got["a"] != "b" || got["kubernetes.io/cluster/c"] != "owned" {
		t.Errorf("%v", got)
	}
	if got := New("c", true, nil); len(got) != 2 || got["KubernetesCluster"] != "c" {
		t.Errorf("%v", got)
	}
}

// TestMadeIsProvenByTheUID: the ID alone proves nothing, and another UID, another cluster beside it or another controller that it is not ours.
func TestMadeIsProvenByTheUID(t *testing.T) {
	const own, mark = "kubernetes.io/cluster/c", "isthmus-cloud.github.io/cluster-uid"
	for _, tt := range []struct {
		tags  []types.Tag
		proof string
		ok    bool
	}{
		{of(own, "owned", mark, "u"), "u", true},
		{of(own, "owned"), "", true},
		{of("KubernetesCluster", "c", own, "owned"), "", true},
		{of(own, "owned", mark, "v"), "v", false},
		{of(own, "shared", mark, "u"), "", false},
		{of(own, "owned", mark, "u", "kubernetes.io/cluster/d", "shared"), "", false},
		{of(own, "owned", mark, "u", "KubernetesCluster", "d"), "", false},
		{of(own, "owned", mark, "u", "elbv2.k8s.aws/cluster", "c"), "", false},
		{of(mark, "u"), "", false},
		{nil, "", false},
	} {
		if proof, ok := Made(tt.tags, "c", "u"); ok != tt.ok || ok && proof != tt.proof {
			t.Errorf("%v: %q, %t", tt.tags, proof, ok)
		}
	}
	if _, ok := Made(of("kubernetes.io/cluster/", "owned", mark, "u"), "", "u"); ok {
		t.Error("something is made by a cluster without an ID")
	}
}

// TestMarksLeaveRoom: what a Service wants goes first, and what was given stays as it is.
func TestMarksLeaveRoom(t *testing.T) {
	many := func(n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[strconv.Itoa(i)] = ""
		}
		return out
	}
	for _, tt := range []struct{ got, want int }{
		{len(Marked(many(49), "u")), 50},
		{len(Marked(many(50), "u")), 50},
		{len(Marked(many(3), "")), 3},
		{len(MarkedClassic(many(9), "u")), 10},
		{len(MarkedClassic(many(10), "u")), 10},
		{len(MarkedGroup(many(48), "u", "default/web")), 50},
		{len(MarkedGroup(many(49), "u", "default/web")), 50},
	} {
		if tt.got != tt.want {
			t.Errorf("%d tags, want %d", tt.got, tt.want)
		}
	}
	given := many(1)
	if Marked(given, "u"); len(given) != 1 {
		t.Errorf("what was given has become %v", given)
	}
	if s := ServiceOf(of("isthmus-cloud.github.io/service", "default/web")); s != "default/web" {
		t.Errorf("%q", s)
	}
}
