package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
)

// Node is what is kept of a Node. Addresses are in their order, each with its type before it, and taints sorted.
type Node struct {
	ProviderID string            `json:"providerID,omitempty"`
	Addresses  []string          `json:"addresses,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Taints     []string          `json:"taints,omitempty"`
}

// State is what the API holds of a scenario: its Nodes that are there, by their names.
type State map[string]*Node

// Failed implements recording.State: a Node that waits is a state as others are.
func (s State) Failed() bool { return false }

// None says that nothing is known of it.
func (s State) None() bool { return s == nil }

// Digest tells one state from another.
func (s State) Digest() (string, error) {
	sum := sha256.Sum256([]byte(compare.Compact(s)))
	return hex.EncodeToString(sum[:6]), nil
}

// Read returns the states of scenarios, whose Nodes are theirs by name.
func Read(ctx context.Context, client kubernetes.Interface, scenarios []string, of map[string]string) (map[string]State, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	out := map[string]State{}
	for _, s := range scenarios {
		out[s] = State{}
	}
	for i := range list.Items {
		if s := out[of[list.Items[i].Name]]; s != nil {
			s[list.Items[i].Name] = nodeOf(&list.Items[i])
		}
	}
	return out, nil
}

func nodeOf(n *corev1.Node) *Node {
	out := &Node{ProviderID: n.Spec.ProviderID, Labels: maps.Clone(n.Labels)}
	for _, a := range n.Status.Addresses {
		out.Addresses = append(out.Addresses, addressOf(a))
	}
	for _, t := range n.Spec.Taints {
		if t.Key != corev1.TaintNodeNotReady && t.Key != corev1.TaintNodeUnreachable { // the API server's, and kube-controller-manager's
			out.Taints = append(out.Taints, t.ToString())
		}
	}
	slices.Sort(out.Taints)
	return out
}

// addressOf is an address with its type before it.
func addressOf(a corev1.NodeAddress) string { return string(a.Type) + " " + a.Address }

// Addresses are those of texts with their types before them.
func Addresses(texts []string) (out []corev1.NodeAddress) {
	for _, text := range texts {
		kind, address, _ := strings.Cut(text, " ")
		out = append(out, corev1.NodeAddress{Type: corev1.NodeAddressType(kind), Address: address})
	}
	return out
}

// Write gives a Node what is kept of it.
func (n *Node) Write(to *corev1.Node) {
	to.Spec.ProviderID, to.Labels, to.Spec.Taints, to.Status.Addresses = n.ProviderID, maps.Clone(n.Labels), nil, Addresses(n.Addresses)
	for _, t := range n.Taints {
		key, effect, _ := strings.Cut(t, ":")
		key, value, _ := strings.Cut(key, "=")
		to.Spec.Taints = append(to.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
}
