package service

import (
	"fmt"
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

// value64 is how often a histogram was fed.
func value64(t testing.TB, metric prometheus.Metric) uint64 {
	t.Helper()
	var got dto.Metric
	if err := metric.Write(&got); err != nil {
		t.Fatal(err)
	}
	return got.GetHistogram().GetSampleCount()
}

// big is a cluster of many Nodes and Services; each tenth Service has a selector of its own.
func big(b *testing.B, nodes, services int) *world {
	b.Helper()
	w := newWorld(b, nil)
	w.setNodes(manyNodes(nodes)...)
	for i := range services {
		w.create(service(fmt.Sprint("s", i), func(s *corev1.Service) {
			if i%10 == 0 {
				s.Annotations["lb.example.org/nodes"] = fmt.Sprintf("shard!=%d", i)
			}
		}))
		w.sync(fmt.Sprint("s", i))
	}
	return w
}

func manyNodes(n int) []*corev1.Node {
	out := make([]*corev1.Node, 0, n)
	for i := range n {
		out = append(out, node(fmt.Sprint("n", i), func(n *corev1.Node) {
			n.Labels["shard"] = fmt.Sprint(i % 100)
			n.Status.Addresses[0].Address = fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
		}))
	}
	return out
}

// BenchmarkNodePass is what one change of the Nodes costs. "for each Service" is the
// framework's way: it filters and compares all Nodes for each Service; and it does so for
// each Node that has changed, where ours makes one pass for all of them.
func BenchmarkNodePass(b *testing.B) {
	const nodes, services = 5000, 500
	b.Run("once for all", func(b *testing.B) {
		w := big(b, nodes, services)
		for b.Loop() {
			w.c.nodes.changed(false)
			if err := w.c.nodePass(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("for each Service", func(b *testing.B) {
		before, after := manyNodes(nodes), manyNodes(nodes)
		providerIDs := func(all []*corev1.Node) map[string]string {
			out := map[string]string{}
			for _, n := range all {
				if lb.Excluded(n, testProvider.LoadBalancing.Reach) == "" {
					out[n.Name] = n.Spec.ProviderID
				}
			}
			return out
		}
		for b.Loop() {
			for range services {
				if !maps.Equal(providerIDs(before), providerIDs(after)) {
					b.Fatal("the members differ")
				}
			}
		}
	})
}
