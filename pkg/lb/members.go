package lb

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Selector combines the annotations of type TypeSelector: their values or, where a Service has
// none, their defaults. A Node must match all of them. With an error, which is of one that is
// not valid, it matches nothing.
func Selector(service *corev1.Service, vocabulary []cloud.Annotation) (labels.Selector, error) {
	out := labels.Everything()
	for i := range vocabulary {
		a := &vocabulary[i]
		if a.Type != cloud.TypeSelector || a.NotRead {
			continue
		}
		name := stated(a, service.Annotations)
		text, ok := service.Annotations[name]
		if !ok {
			text = a.Default
		}
		s, err := cloud.ParseSelector(text)
		if err != nil {
			return labels.Nothing(), field.Invalid(cloud.AnnotationPath(name), shown(text), source(ok)+allowed(a, text))
		}
		reqs, _ := s.Requirements()
		out = out.Add(reqs...)
	}
	return out, nil
}

// source tells a default from what stands at a Service.
func source(stated bool) string {
	if stated {
		return ""
	}
	return "this is the default of the cloud's configuration: "
}

// Nodes are the candidates for members, prepared once for many Services: what a selector
// selects is worked out at its first use. Nil is none. Safe for concurrent use.
type Nodes struct {
	candidates []candidate                // sorted by name
	members    []cloud.LoadBalancerMember // those of them that can be some

	reach cloud.Reach

	mu         sync.Mutex
	selections map[string]*Selection // by selector; at most maxSelections
}

// maxSelections bounds how many selectors are remembered for the same Nodes: each selection has
// a copy of its members, and selectors of deleted Services would stay as long as no Node changes.
const maxSelections = 256

type candidate struct {
	member    cloud.LoadBalancerMember
	reachable bool // else it cannot be one
	labels    labels.Set
	digest    []byte
}

// NewNodes prepares nodes, which are not changed and must not change any more, for a cloud with
// these traits.
func NewNodes(nodes []*corev1.Node, traits *cloud.LoadBalancerTraits) *Nodes {
	out := &Nodes{candidates: make([]candidate, 0, len(nodes)), reach: traits.Reach, selections: map[string]*Selection{}}
	for _, n := range nodes {
		if traits.Eligible != nil && !traits.Eligible(n) {
			continue
		}
		m := cloud.LoadBalancerMember{
			Node:      cloud.InstanceRef{NodeName: n.Name, ProviderID: n.Spec.ProviderID},
			Addresses: MemberAddresses(n, traits.Reach),
		}
		out.candidates = append(out.candidates, candidate{member: m, reachable: IsReachable(n, traits.Reach), labels: n.Labels, digest: fmt.Appendf(nil, "%+q %v\n", m.Node, m.Addresses)})
	}
	slices.SortFunc(out.candidates, func(a, b candidate) int { return strings.Compare(a.member.Node.NodeName, b.member.Node.NodeName) })
	for _, c := range out.candidates {
		if c.reachable {
			out.members = append(out.members, c.member)
		}
	}
	return out
}

// Selection is what a selector selects of Nodes. It is shared: do not change it.
type Selection struct {
	// Members are sorted by name.
	Members []cloud.LoadBalancerMember
	// Digest is the same only for the same Members. Of none it tells whether there were any to
	// select, without which no load balancer may be made.
	Digest string

	unreachable []string
	matched     bool // a node, or there is none at all
}

// Select returns what the selector selects.
func (n *Nodes) Select(selector labels.Selector) *Selection {
	if n == nil {
		return &Selection{matched: true}
	}
	key := selector.String()
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok := n.selections[key]
	if !ok {
		s = n.pick(selector)
		if len(n.selections) >= maxSelections {
			clear(n.selections)
		}
		n.selections[key] = s
	}
	return s
}

func (n *Nodes) pick(selector labels.Selector) *Selection {
	out := &Selection{}
	hash := sha256.New()
	for _, c := range n.candidates {
		if !selector.Matches(c.labels) {
			continue
		}
		if !c.reachable {
			out.unreachable = append(out.unreachable, c.member.Node.NodeName)
			continue
		}
		out.Members = append(out.Members, c.member)
		hash.Write(c.digest)
	}
	if len(out.Members) == 0 && len(n.members) > 0 {
		hash.Write([]byte("none of them"))
	}
	out.Digest = hex.EncodeToString(hash.Sum(nil))
	out.matched = len(n.candidates) == 0 || len(out.Members)+len(out.unreachable) > 0
	return out
}

const (
	// taintToBeDeleted is what the cluster autoscaler sets on a Node that it will remove.
	taintToBeDeleted = "ToBeDeletedByClusterAutoscaler"
	// taintUninitialized is on Nodes that the node controller has not worked on yet.
	taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
)

// Excluded says why a Node is no candidate for members, "" where it is one: it is neither excluded by its label nor
// about to go, and not one that only waits for its initialization. Whether it is ready does
// not count: the health checks see to that, without a change of the load balancer.
func Excluded(node *corev1.Node, reach cloud.Reach) string {
	if value, ok := node.Labels[corev1.LabelNodeExcludeBalancers]; ok {
		if excluded, err := strconv.ParseBool(value); err != nil || excluded {
			return "it has the label " + corev1.LabelNodeExcludeBalancers
		}
	}
	switch {
	case node.DeletionTimestamp != nil:
		return "it is being deleted"
	case hasTaint(node, taintToBeDeleted):
		return "the cluster autoscaler will remove it: it has the taint " + taintToBeDeleted
	case IsNew(node) && !IsReachable(node, reach):
		return "it waits for its initialization"
	}
	return ""
}

// IsNew reports whether a Node waits for its initialization by a cloud controller manager.
func IsNew(node *corev1.Node) bool {
	return hasTaint(node, taintUninitialized)
}

func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// IsReachable reports whether load balancers can reach the Node.
func IsReachable(n *corev1.Node, reach cloud.Reach) bool {
	if reach == cloud.ByInstance {
		return n.Spec.ProviderID != ""
	}
	return len(MemberAddresses(n, reach)) > 0
}

// MemberAddresses returns the addresses by which load balancers reach the Node, each once: its
// InternalIPs in its order and with ByAnyIP, of an IP family of which it has none, its ExternalIPs.
func MemberAddresses(n *corev1.Node, reach cloud.Reach) []netip.Addr {
	if reach == cloud.ByInstance {
		return nil
	}
	out := addressesOf(n, corev1.NodeInternalIP)
	if reach == cloud.ByInternalIP {
		return out
	}
	internal := len(out)
	for _, addr := range addressesOf(n, corev1.NodeExternalIP) {
		if !slices.ContainsFunc(out[:internal], func(a netip.Addr) bool { return a.Is4() == addr.Is4() }) {
			out = append(out, addr)
		}
	}
	return out
}

func addressesOf(n *corev1.Node, kind corev1.NodeAddressType) []netip.Addr {
	var out []netip.Addr
	for _, a := range n.Status.Addresses {
		if a.Type != kind {
			continue
		}
		addr, err := netip.ParseAddr(a.Address)
		if err != nil {
			continue
		}
		if addr = addr.Unmap(); !slices.Contains(out, addr) {
			out = append(out, addr)
		}
	}
	return out
}
