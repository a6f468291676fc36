package ccm

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// nodeClient is the node controller's client. The framework compares addresses by their type
// and so takes those of a Node with two of one type, as a dual-stack Node has, for changed at
// every sync. What it then sends changes nothing; nodeClient does not send it.
type nodeClient struct{ kubernetes.Interface }

// CoreV1 implements kubernetes.Interface.
func (c nodeClient) CoreV1() corev1client.CoreV1Interface { return nodeCore{c.Interface.CoreV1()} }

type nodeCore struct{ corev1client.CoreV1Interface }

// Nodes implements corev1client.NodesGetter.
func (c nodeCore) Nodes() corev1client.NodeInterface { return patchedNodes{c.CoreV1Interface.Nodes()} }

type patchedNodes struct{ corev1client.NodeInterface }

// emptyPatch is what the framework makes of two Nodes that are the same.
const emptyPatch = "{}"

// Patch implements corev1client.NodeInterface. The answer to an empty patch has nothing but
// the name: the framework does not look at it.
func (n patchedNodes) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Node, error) {
	if string(data) == emptyPatch && slices.Equal(subresources, []string{"status"}) {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
	}
	return n.NodeInterface.Patch(ctx, name, pt, data, opts, subresources...)
}
