package tracing

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/text"
)

const (
	service = "isthmus-cloud-controller-manager"
	scope   = "github.com/isthmus-cloud/isthmus"
	// export is gRPC's path of the call that takes spans.
	export = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	// endMost bounds how long the last spans are waited for.
	endMost = 5 * time.Second
	// answerMost bounds an answer, in bytes, and messageMost what is told of it.
	answerMost, messageMost = 64 << 10, 200
)

// Run returns a context in which Start begins spans, which are sent to the collector in the background until end is called. It
// waits for no collector: spans that cannot be sent are dropped, as are those beyond some thousand that wait. A nil
// Config returns ctx itself.
func Run(ctx context.Context, c *Config, version string) (traced context.Context, end func(), err error) {
	if c == nil {
		return ctx, func() {}, nil
	}
	logger := klog.FromContext(ctx)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.V(2).Info("Spans were not sent", "endpoint", c.endpoint, "reason", text.Clip(err.Error(), messageMost))
	}))
	exporter, err := otlptrace.New(ctx, newClient(c.endpoint))
	if err != nil {
		return nil, nil, fmt.Errorf("tracing: %w", err)
	}
	p := trace.NewTracerProvider(
		trace.WithSampler(trace.ParentBased(trace.TraceIDRatioBased(c.share))), trace.WithBatcher(exporter),
		trace.WithResource(resource.NewSchemaless(attribute.String("service.name", service), attribute.String("service.version", version))),
	)
	logger.Info("Tracing is on", "endpoint", c.endpoint, "share", c.share)
	return with(ctx, p.Tracer(scope)), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endMost)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			logger.V(2).Info("The last spans were not sent", "reason", text.Clip(err.Error(), messageMost))
		}
	}, nil
}

// client implements otlptrace.Client: gRPC's Export, without TLS, as TracingConfiguration says.
type client struct {
	http *http.Client
	url  string
}

func newClient(endpoint string) *client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	host := endpoint
	if path, ok := strings.CutPrefix(endpoint, "unix:"); ok {
		host, path = "localhost", strings.TrimPrefix(path, "//")
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
	return &client{http: &http.Client{Transport: transport}, url: "http://" + host + export}
}

// Start implements otlptrace.Client.
func (*client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. A message of gRPC is one byte that says that it is not compressed, its length, and itself;
// TracesData has the wire format of ExportTraceServiceRequest.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))) //nolint:gosec // a batch has some hundred spans
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(append(frame, body...)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, answerMost)); err != nil {
		return err
	}
	status, message := resp.Trailer.Get("Grpc-Status"), resp.Trailer.Get("Grpc-Message")
	if status == "" { // an error without a body has them there
		status, message = resp.Header.Get("Grpc-Status"), resp.Header.Get("Grpc-Message")
	}
	if resp.StatusCode != http.StatusOK || status != "0" {
		return errors.New("the collector answered " + resp.Status + ", gRPC status " + status + ": " + text.Clip(message, messageMost))
	}
	return nil
}
