package doctor

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/status"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

// routes looks for Nodes whose Pods cannot be reached, by what is written on the Nodes. Where none has a pod CIDR the network plugin
// needs none, and where none has the route controller's condition it needs no routes.
func (p *patient) routes(owned []*corev1.Node) (found []output.Finding) {
	if !slices.ContainsFunc(owned, func(n *corev1.Node) bool { return len(n.Spec.PodCIDRs) > 0 }) {
		return nil
	}
	severity := output.Warning
	if slices.ContainsFunc(owned, func(n *corev1.Node) bool { _, ok := status.RouteCondition(n); return ok }) {
		severity = output.Error
	}
	for _, n := range owned {
		if lb.IsNew(n) || p.clock.Since(n.CreationTimestamp.Time) <= fresh {
			continue
		}
		made, told := status.RouteCondition(n)
		switch {
		case len(n.Spec.PodCIDRs) == 0:
			found = append(found, output.Finding{Severity: severity, Object: "node/" + n.Name, Message: "it has no pod CIDR, and other Nodes have: its Pods may get no addresses, and no routes lead to them",
				Next: "look at its events (CIDRNotAvailable: --cluster-cidr is used up), and whether kube-controller-manager or node-ipam-controller here gives pod CIDRs (--allocate-node-cidrs)"})
		case told && !made:
			found = append(found, output.Finding{Severity: output.Error, Object: "node/" + n.Name, Message: "the routes to its Pods are not all in the cloud",
				Next: "mend what its event FailedToCreateRoute says: kubectl describe node " + n.Name + "; where there is none, look whether a controller manager leads"})
		}
	}
	return found
}
