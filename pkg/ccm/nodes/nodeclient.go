package nodes

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// nodeClient is the client of the framework's two controllers of Nodes. It does not send what changes
// nothing, and does not ask for what is known:
//
// The framework compares addresses by their type and so takes those of a Node with two of one
// type, as a dual-stack Node has, for changed at every sync.
//
// It makes an Event "Node synced successfully" of each Node that it initializes, a third write
// beside the Node and its status that says what the Node says itself; the log has it, too.
//
// Every five seconds the node lifecycle controller asks for each Node whose instance is shut down, in
// whatever version, to see whether it has the taint: the informer has it. The taint is written with the
// version that was read, so that an old one is a conflict, after which the API server is asked.
type nodeClient struct {
	kubernetes.Interface
	nodes corelisters.NodeLister
}

// NewClient returns c as the framework's two controllers of Nodes are to have it.
func NewClient(c kubernetes.Interface, nodes corelisters.NodeLister) kubernetes.Interface {
	return nodeClient{c, nodes}
}

// CoreV1 implements kubernetes.Interface.
func (c nodeClient) CoreV1() corev1client.CoreV1Interface {
	return nodeCore{c.Interface.CoreV1(), c.nodes}
}

type nodeCore struct {
	corev1client.CoreV1Interface
	nodes corelisters.NodeLister
}

// Nodes implements corev1client.NodesGetter.
func (c nodeCore) Nodes() corev1client.NodeInterface {
	return knownNodes{c.CoreV1Interface.Nodes(), c.nodes}
}

// Events implements corev1client.EventsGetter.
func (c nodeCore) Events(namespace string) corev1client.EventInterface {
	return nodeEvents{c.CoreV1Interface.Events(namespace)}
}

type nodeEvents struct{ corev1client.EventInterface }

// initialized is the reason of the framework's Event.
const initialized = "Synced"

// CreateWithEventNamespace implements corev1client.EventInterface; the framework's sink has no other way.
func (e nodeEvents) CreateWithEventNamespace(event *corev1.Event) (*corev1.Event, error) {
	if event.Reason == initialized && event.Type == corev1.EventTypeNormal {
		return event, nil
	}
	return e.EventInterface.CreateWithEventNamespace(event) //nolint:staticcheck // what is asked for is passed on
}

type knownNodes struct {
	corev1client.NodeInterface
	nodes corelisters.NodeLister
}

// anyVersion is a resource version that asks for no certain one.
const anyVersion = "0"

// Get implements corev1client.NodeInterface.
func (n knownNodes) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Node, error) {
	if opts.ResourceVersion == anyVersion {
		if node, err := n.nodes.Get(name); err == nil {
			return node.DeepCopy(), nil
		}
	}
	return n.NodeInterface.Get(ctx, name, opts)
}

// emptyPatch is what the framework makes of two Nodes that are the same.
const emptyPatch = "{}"

// Patch implements corev1client.NodeInterface. The answer to an empty patch has nothing but
// the name: the framework does not look at it.
func (n knownNodes) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Node, error) {
	if string(data) == emptyPatch && slices.Equal(subresources, []string{"status"}) {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
	}
	return n.NodeInterface.Patch(ctx, name, pt, data, opts, subresources...)
}
