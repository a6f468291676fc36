// Package serving is the secure port: health, metrics, /configz and profiles over TLS, for those whom the API server
// knows and permits. It knows no controller.
package serving

//go:generate go run ../../../hack/gen-metrics ../../../docs/reference/metrics.md
