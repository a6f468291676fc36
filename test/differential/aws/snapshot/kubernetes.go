package snapshot

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// Nodes are by name the scenarios whose Nodes they are.
type Nodes map[string]string

// ReadNodes adds the scenarios' Nodes to their states.
func ReadNodes(ctx context.Context, client kubernetes.Interface, states map[string]State, nodes Nodes) error {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Nodes: %w", err)
	}
	for _, n := range list.Items {
		if s := nodes[n.Name]; s != "" {
			states[s].put("node", n.Name, NodeOf(&n))
		}
	}
	return nil
}

// NodeOf is the normal form of a Node.
func NodeOf(n *corev1.Node) Object {
	var addresses, taints []string
	for _, a := range n.Status.Addresses {
		addresses = append(addresses, string(a.Type)+" "+a.Address)
	}
	for _, t := range n.Spec.Taints {
		if t.Key != corev1.TaintNodeNotReady && t.Key != corev1.TaintNodeUnreachable { // the API server's, and kube-controller-manager's
			taints = append(taints, t.ToString())
		}
	}
	o := Object{"providerID": n.Spec.ProviderID, "addresses": addresses, "labels": texts(n.Labels, nil), "taints": set(taints)}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			o["networkUnavailable"] = string(c.Status)
		}
	}
	return filled(o)
}

// WriteNode gives a Node what its normal form, as it is read from JSON, has.
func WriteNode(n *corev1.Node, o Object) {
	n.Spec.ProviderID, n.Labels = text(o, "providerID"), pairs(object(o, "labels"))
	n.Status.Addresses, n.Spec.Taints = nil, nil
	for _, a := range list(o, "addresses") {
		kind, address, _ := strings.Cut(a, " ")
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(kind), Address: address})
	}
	for _, t := range sorted(object(o, "taints")) {
		key, effect, _ := strings.Cut(t, ":")
		key, value, _ := strings.Cut(key, "=")
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	if status := text(o, "networkUnavailable"); status != "" {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionStatus(status)})
	}
}

// ReadServices adds what is published about the scenarios' Services to their states.
func ReadServices(ctx context.Context, client kubernetes.Interface, symbols *symbol.Symbols, states map[string]State, before, now differential.Mark) error {
	services, err := differential.ReadServices(ctx, client, symbols, before, now)
	if err != nil {
		return err
	}
	for key, p := range services {
		state := states[key.Namespace]
		if state == nil {
			continue
		}
		ingress, err := plain(p.Ingress)
		if err != nil {
			return err
		}
		o := filled(Object{"finalizers": set(p.Finalizers), "failed": p.Failed, "events": set(p.Events)})
		if len(p.Ingress) > 0 {
			o["ingress"] = ingress
		}
		state.put("service", key.Name, o)
	}
	return nil
}
