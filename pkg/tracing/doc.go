// Package tracing begins OpenTelemetry spans, and sends them to a collector by OTLP over gRPC, as Kubernetes' components do and
// by the same file (TracingConfiguration).
//
// It does not use k8s.io/component-base/tracing, which makes the binary twice as large (57 MB becomes 122 MB: with gRPC's
// library the linker keeps methods that nothing calls). The one call of gRPC that it takes is a request of net/http.
//
// Where tracing is off nothing is allocated. Spans have names and IDs, no bodies, no headers and no messages of errors.
package tracing
