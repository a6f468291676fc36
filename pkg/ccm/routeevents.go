package ccm

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// waitsForAddresses is the reason why a Node has no route that needs nobody's attention.
// The framework's route controller comes by every ten seconds, also at Nodes that are being
// initialized. It must get an error, so that it marks their network as unavailable until
// there is a route; but it makes of each error a warning about the Node.
const waitsForAddresses = "has no addresses yet, it is not initialized"

// routeClient is the route controller's client. It publishes no warnings that only say that
// a Node is new.
type routeClient struct{ kubernetes.Interface }

// CoreV1 implements kubernetes.Interface.
func (c routeClient) CoreV1() corev1client.CoreV1Interface { return routeCore{c.Interface.CoreV1()} }

type routeCore struct{ corev1client.CoreV1Interface }

// Events implements corev1client.EventsGetter.
func (c routeCore) Events(namespace string) corev1client.EventInterface {
	return routeEvents{c.CoreV1Interface.Events(namespace)}
}

type routeEvents struct{ corev1client.EventInterface }

// CreateWithEventNamespace implements corev1client.EventExpansion, for client-go's event sink.
func (e routeEvents) CreateWithEventNamespace(event *corev1.Event) (*corev1.Event, error) {
	if strings.Contains(event.Message, waitsForAddresses) {
		return event, nil
	}
	return e.EventInterface.CreateWithEventNamespace(event) //nolint:staticcheck // the sink has no context
}

// PatchWithEventNamespace implements corev1client.EventExpansion, for client-go's event sink.
func (e routeEvents) PatchWithEventNamespace(event *corev1.Event, data []byte) (*corev1.Event, error) {
	if strings.Contains(event.Message, waitsForAddresses) {
		return event, nil
	}
	return e.EventInterface.PatchWithEventNamespace(event, data) //nolint:staticcheck // the sink has no context
}
