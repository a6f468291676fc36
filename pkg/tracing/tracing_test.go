package tracing

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// receiver is a collector by gRPC's own library.
type receiver struct {
	collector.UnimplementedTraceServiceServer

	mu    sync.Mutex
	err   error
	spans []*tracepb.Span
	names []string // of the resources
}

func (r *receiver) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range req.GetResourceSpans() {
		for _, a := range rs.GetResource().GetAttributes() {
			r.names = append(r.names, a.GetKey()+"="+a.GetValue().GetStringValue())
		}
		for _, ss := range rs.GetScopeSpans() {
			r.spans = append(r.spans, ss.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, r.err
}

// listen starts it.
func listen(t *testing.T, network, address string) (*receiver, string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	r, s := &receiver{}, grpc.NewServer()
	collector.RegisterTraceServiceServer(s, r)
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) }) // until Stop
	t.Cleanup(func() {
		s.Stop()
		wg.Wait()
	})
	return r, l.Addr().String()
}

func TestSpansArriveByGRPC(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "otlp")
			}
			r, endpoint := listen(t, network, address)
			if network == "unix" {
				endpoint = "unix://" + endpoint
			}
			ctx, end, err := Run(t.Context(), &Config{endpoint: endpoint, share: 1}, "v1")
			if err != nil {
				t.Fatal(err)
			}
			outer, parent := Start(ctx, "outer")
			parent.Set(Node, strings.Repeat("é", valueMost))
			parent.Set(RequestID, "")
			_, child := Start(outer, "inner")
			child.SetInt(Status, 503)
			child.Fail("Unavailable")
			child.End()
			parent.End()
			end()
			if len(r.spans) != 2 || r.spans[0].GetName() != "inner" || string(r.spans[0].GetParentSpanId()) != string(r.spans[1].GetSpanId()) {
				t.Fatalf("spans %v", r.spans)
			}
			if s := r.spans[0].GetStatus(); s.GetCode() != tracepb.Status_STATUS_CODE_ERROR || s.GetMessage() != "Unavailable" {
				t.Errorf("status %v", s)
			}
			if a := r.spans[1].GetAttributes(); len(a) != 1 || len(a[0].GetValue().GetStringValue()) > valueMost+len("…") {
				t.Errorf("attributes %v", a)
			}
			if got := strings.Join(r.names, " "); got != "service.name=isthmus-cloud-controller-manager service.version=v1" {
				t.Errorf("resource %s", got)
			}
		})
	}
}

func TestCollectorsThatRefuse(t *testing.T) {
	r, endpoint := listen(t, "tcp", "127.0.0.1:0")
	r.err = status.Error(codes.ResourceExhausted, strings.Repeat("full ", 1000))
	err := newClient(endpoint).UploadTraces(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "gRPC status 8: full") || len(err.Error()) > 2*messageMost {
		t.Errorf("%v", err)
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.Protocols = &protocols
	s.Start()
	defer s.Close()
	if err := newClient(s.Listener.Addr().String()).UploadTraces(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%v", err)
	}
	s.Close()
	if err := newClient(s.Listener.Addr().String()).UploadTraces(t.Context(), nil); err == nil {
		t.Error("nobody listens, and that is no error")
	}
}

// Where tracing is off, spans cost nothing.
func TestOffIsFree(t *testing.T) {
	ctx, end, err := Run(t.Context(), nil, "v1")
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if n := testing.AllocsPerRun(100, func() {
		_, span := Start(ctx, "off")
		span.Set(Node, "n")
		span.SetInt(Status, 200)
		span.Fail("Unavailable")
		span.End()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLoad(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
	for _, tt := range []struct {
		text, want string
		config     Config
	}{
		{text: head + "samplingRatePerMillion: 1000000\n", config: Config{endpointDefault, 1}},
		{text: strings.Replace(head, "/v1", "/v1beta1", 1) + "endpoint: collector:4317\nsamplingRatePerMillion: 100\n", config: Config{"collector:4317", 0.0001}},
		{text: head + "endpoint: dns:///collector:4317\nsamplingRatePerMillion: 1000000\n", config: Config{"collector:4317", 1}},
		{text: head + "endpoint: unix:///run/otlp\nsamplingRatePerMillion: 1000000\n", config: Config{"unix:///run/otlp", 1}},
		{text: head, want: "samplingRatePerMillion must be positive"},
		{text: head + "samplingRatePerMillion: 1000001\n", want: "one million"},
		{text: head + "samplingRatePerMillion: -1\n", want: "positive"},
		{text: head + "samplingRatePerMillion: 1\nendpoint: https://collector:4317\n", want: "scheme"},
		{text: head + "samplingRatePerMillion: 1\nendpoint: unix-abstract:///otlp\n", want: "HOST:PORT or unix:PATH"},
		{text: head + "samplingRatePerMillion: 1\nendpoint: dns://1.1.1.1/collector:4317\n", want: "HOST:PORT or unix:PATH"},
		{text: head + "samplingRatePerMillion: 1\nendpoint: collector\n", want: "HOST:PORT or unix:PATH"},
		{text: head + "samplingRate: 1\n", want: "unknown field"},
		{text: "kind: TracingConfiguration\n", want: "must be a TracingConfiguration"},
		{text: strings.Replace(head, "Tracing", "Egress", 1), want: "must be a TracingConfiguration"},
		{text: "{", want: "yaml"},
	} {
		file := filepath.Join(t.TempDir(), "tracing.yaml")
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Load(file)
		switch {
		case tt.want == "" && (err != nil || *got != tt.config):
			t.Errorf("%s: %v, %v", tt.text, got, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), file)):
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
	}
}
