package kubeletserving

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// Find asks the cloud now, not a cache, for the instance that the Node's provider ID names.
type Find func(ctx context.Context, node *corev1.Node) (*cloud.Instance, error)

// verdict is what becomes of a request.
type verdict struct {
	result  string
	message string
	// again is that it may be approved later.
	again bool
}

// eventType is the type of the Event about a request that is not approved. One of a Node of another cloud is somebody else's.
func (v verdict) eventType() string {
	if v.result == resultForeign {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// errorMost bounds what an error tells in an Event.
const errorMost = 300

// judge decides about the request of the Node of this name.
func (c *Controller) judge(ctx context.Context, name string, csr *certificatesv1.CertificateSigningRequest) verdict {
	leave := func(result string, again bool, format string, args ...any) verdict {
		return verdict{result: result, message: fmt.Sprintf(format, args...), again: again}
	}
	byHand := "approve it yourself, if it is right: kubectl certificate approve " + csr.Name
	r, err := parse(csr)
	if err != nil {
		return leave(resultInvalid, false, "it is not what a kubelet asks for: %v. Look at what runs on the node", err)
	}
	node, err := c.Nodes.Get(name)
	switch {
	case err != nil:
		return leave(resultNode, true, "there is no Node %s. It is tried again; see why its kubelet does not register", text.Line(name, shown))
	case node.Labels[cloud.ExcludeNode] == "true":
		return leave(resultForeign, false, "the label %s says that Node %s is no instance of the cloud; %s", cloud.ExcludeNode, name, byHand)
	case node.Spec.ProviderID == "":
		return leave(resultNode, true, "Node %s has no provider ID yet. It is tried again; see why it is not initialized: kubectl describe node %s", name, name)
	case !c.Owns(node):
		return leave(resultForeign, false, "the provider ID of Node %s is not this cloud's; %s", name, byHand)
	}
	instance, err := c.Find(ctx, node)
	if err != nil {
		return leave(resultCloud, true, "the cloud does not say which addresses Node %s has: %s. It is tried again", name, text.Line(err.Error(), errorMost))
	}
	if instance.Shutdown {
		return leave(resultMismatch, true, "instance %s of Node %s is shut down, as the cloud says. It is tried again", instance.ProviderID, name)
	}
	if err := r.isFor(name, instance); err != nil {
		return leave(resultMismatch, true, "%v, as the cloud says now. It is tried again; %s", err, byHand)
	}
	return verdict{result: resultApproved, message: fmt.Sprintf("Each name is one that the cloud gives instance %s of Node %s", instance.ProviderID, name)}
}
