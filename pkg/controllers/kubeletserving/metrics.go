package kubeletserving

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/isthmus-cloud/isthmus/pkg/collectors"
)

// Values of the label result.
const (
	resultApproved = "approved"
	resultInvalid  = "invalid"  // not what a kubelet asks for
	resultNode     = "node"     // no Node, or none with a provider ID
	resultForeign  = "foreign"  // the Node is no instance of the cloud
	resultCloud    = "cloud"    // the cloud has not told, or has no such instance
	resultMismatch = "mismatch" // the instance has another name or other addresses
)

// Metrics are the controller's numbers. The queue's own are workqueue_*{name="kubelet_serving_csr_approver"}.
type Metrics struct {
	requests *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them with r; nil registers them nowhere. What r
// has already is used again.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: "kubelet_serving_csr_approver_controller", Name: "requests_total",
		Help: "How often CertificateSigningRequests of kubelets' serving certificates were looked into, by result: approved, or left pending as invalid, for want of a Node (node), " +
			"as the Node is no instance of the cloud (foreign), as the cloud did not tell of the instance (cloud) or tells of another name or other addresses (mismatch).",
	}, []string{"result"})}
	if err := collectors.Register(r, &m.requests); err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	for _, result := range []string{resultApproved, resultInvalid, resultNode, resultForeign, resultCloud, resultMismatch} {
		m.requests.WithLabelValues(result) // so that alerts have a zero to start from
	}
	return m, nil
}
