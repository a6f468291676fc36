package integration

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// spans is a collector, by gRPC's own library.
type spans struct {
	collector.UnimplementedTraceServiceServer

	mu  sync.Mutex
	all map[string]*tracepb.Span // by ID
}

func (s *spans) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range req.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, span := range ss.GetSpans() {
				s.all[hex.EncodeToString(span.GetSpanId())] = span
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// attribute is a span's, "" where it has none.
func attribute(span *tracepb.Span, key string) string {
	for _, a := range span.GetAttributes() {
		if a.GetKey() == key {
			return strings.Trim(fmt.Sprint(a.GetValue().GetStringValue(), a.GetValue().GetIntValue()), "0 ")
		}
	}
	return ""
}

// of are those of the spans that are requests to a family of the cloud's API.
func of(all []*tracepb.Span, family string) (out []*tracepb.Span) {
	for _, span := range all {
		if attribute(span, "isthmus.family") == family {
			out = append(out, span)
		}
	}
	return out
}

// ways are the spans by their names, from the event to the request.
func (s *spans) ways() map[string][]*tracepb.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]*tracepb.Span{}
	for _, span := range s.all {
		way := span.GetName()
		for parent := s.all[hex.EncodeToString(span.GetParentSpanId())]; parent != nil; parent = s.all[hex.EncodeToString(parent.GetParentSpanId())] {
			way = parent.GetName() + " > " + way
		}
		out[way] = append(out[way], span)
	}
	return out
}

// collectSpans runs a real OTLP receiver, and returns it with the flag that has a process send all spans there.
func collectSpans(t *testing.T) (*spans, string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got, server := &spans{all: map[string]*tracepb.Span{}}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, got)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // until Stop
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return got, "--tracing-config-file=" + write(t, "tracing.yaml",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: "+l.Addr().String()+"\nsamplingRatePerMillion: 1000000\n")
}

// lack says which of the ways no span has gone.
func (s *spans) lack(want ...string) string {
	ways := s.ways()
	for _, way := range want {
		if len(ways[way]) == 0 {
			return fmt.Sprintf("no %s, only these ways: %v", way, slices.Sorted(maps.Keys(ways)))
		}
	}
	return ""
}

// The real process sends spans from each event to the cloud's request, to a real OTLP receiver.
func TestTraces(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	got, flag := collectSpans(t)
	servers := sim.SeedServers(ossim.Seed{Count: 2, NamePrefix: "node-"})
	c.register(servers, always(nodeState{ready: true}))
	p := c.launch(sim, "--leader-elect=false", "--controllers=*,node-ipam-controller", "--allocate-node-cidrs", "--configure-cloud-routes=false", flag)
	p.wait("/readyz", http.StatusOK)
	eventually.Met(t, func() string { return c.initialized(servers) })
	c.createService(loadBalancerService("traced", corev1.ServicePort{Port: 80}))
	const node, service = "node lookup > cloud call > cloud request", "service sync > cloud call > cloud request"
	eventually.Met(t, func() string {
		if len(of(got.ways()[node], "compute")) == 0 {
			return "no request to the family compute"
		}
		return got.lack(node, service, "node pod CIDRs")
	})
	p.end() // the last are sent at the end
	for way, all := range got.ways() {
		if text := fmt.Sprint(all); strings.Contains(text, ossim.UserPassword) || strings.Contains(text, "X-Auth-Token") {
			t.Errorf("%s: a secret in %s", way, text)
		}
	}
	request := of(got.ways()[node], "compute")[0]
	for key, want := range map[string]string{"cloud.provider": "openstack", "isthmus.family": "compute", "isthmus.operation": "GET", "http.response.status_code": "2"} {
		if is := attribute(request, key); !strings.Contains(is, want) {
			t.Errorf("%s is %q, want %q: %v", key, is, want, request)
		}
	}
	if attribute(request, "isthmus.request_id") == "" || attribute(request, "cloud.region") == "" {
		t.Errorf("no request ID or no place: %v", request)
	}
}

// Instances are tagged, and the tags removed, each in a span with the cloud's request.
func TestTracesOfTagging(t *testing.T) {
	c := newCluster(t)
	region := c.startAWS()
	got, flag := collectSpans(t)
	p := c.launchOn([]string{"--cloud-provider=aws"}, "--leader-elect=false", "--controllers=cloud-node-controller,tagging", "--tags=team=blue", "--resources=instance", flag)
	p.wait("/readyz", http.StatusOK)
	i := region.AddInstance(ec2.Instance{Tags: awsTag})
	c.create(registered(i.PrivateDNSName, "", corev1.ConditionTrue))
	eventually.Met(t, func() string { return got.lack("instances tag > cloud request") })
	if err := c.client.CoreV1().Nodes().Delete(t.Context(), i.PrivateDNSName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Met(t, func() string { return got.lack("instances untag > cloud request") })
	for _, span := range got.ways()["instances tag"] {
		if name, n := attribute(span, "k8s.node.name"), attribute(span, "isthmus.count"); name != i.PrivateDNSName || n != "1" {
			t.Errorf("the span names Node %q of %q", name, n)
		}
	}
}
