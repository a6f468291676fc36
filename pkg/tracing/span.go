package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// valueMost bounds an attribute.
const valueMost = 200

// Names of attributes: OpenTelemetry's and Kubernetes' where they have one.
const (
	Node      = "k8s.node.name"
	Service   = "k8s.service.name"
	Volume    = "k8s.persistentvolume.name"
	Count     = "isthmus.count"
	Cloud     = "cloud.provider"
	Place     = "cloud.region"
	Family    = "isthmus.family"
	Ability   = "isthmus.ability"
	Operation = "isthmus.operation"
	Outcome   = "isthmus.outcome"
	RequestID = "isthmus.request_id"
	Status    = "http.response.status_code"
)

// contextKey is where a context has its tracer.
type contextKey struct{}

// with returns a context in which Start begins spans of t.
func with(ctx context.Context, t trace.Tracer) context.Context {
	return context.WithValue(ctx, contextKey{}, t)
}

// Span is a span, or none.
type Span struct{ span trace.Span }

// Start begins a span, which is part of the one that ctx has, if any. It is none where tracing is off. The name must be one of few.
func Start(ctx context.Context, name string) (context.Context, Span) {
	t, ok := ctx.Value(contextKey{}).(trace.Tracer)
	if !ok {
		return ctx, Span{}
	}
	ctx, span := t.Start(ctx, name)
	return ctx, Span{span}
}

// Records reports whether anybody is going to see the span: what is dear to make for it need not be made otherwise.
func (s Span) Records() bool { return s.span != nil && s.span.IsRecording() }

// Set sets an attribute. An empty value is none.
func (s Span) Set(key, value string) {
	if value != "" && s.Records() {
		s.span.SetAttributes(attribute.String(key, text.Clip(value, valueMost)))
	}
}

// SetInt sets an attribute.
func (s Span) SetInt(key string, value int) {
	if s.Records() {
		s.span.SetAttributes(attribute.Int(key, value))
	}
}

// Fail says that it has failed, as which kind of error. The error itself is in the log.
func (s Span) Fail(kind string) {
	if s.Records() {
		s.span.SetStatus(codes.Error, kind)
	}
}

// End ends it.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}
