package openstack

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// securityGroup is a security group as Neutron answers it, with its rules.
type securityGroup struct {
	ID        string      `json:"id"`
	Name      string      `json:"name"`
	ProjectID string      `json:"project_id"`
	Tags      []string    `json:"tags"`
	Rules     []groupRule `json:"security_group_rules"`
}

// groupRule is one rule of a group as Neutron answers it; null is the zero value.
type groupRule struct {
	ID          string `json:"id"`
	Direction   string `json:"direction"`
	EtherType   string `json:"ethertype"`
	Protocol    string `json:"protocol"`
	Min         int    `json:"port_range_min"`
	Max         int    `json:"port_range_max"`
	Prefix      string `json:"remote_ip_prefix"`
	RemoteGroup string `json:"remote_group_id"`
}

const (
	ingress = "ingress"
	// groupPrefix begins the name of every security group made for a Service.
	groupPrefix = "lb-sg-"
	// maxGroupRules bounds the rules that a Service's ports and source ranges make together: 1.5
	// million, which one Service can ask for, took 30 s each time.
	maxGroupRules = 10_000
)

// key is all that makes two rules the same.
func (r groupRule) key() string {
	prefix := r.Prefix
	if p, err := netip.ParsePrefix(prefix); err == nil {
		prefix = p.Masked().String()
	}
	return strings.Join([]string{r.Direction, r.EtherType, strings.ToLower(r.Protocol), fmt.Sprint(r.Min), fmt.Sprint(r.Max), prefix, r.RemoteGroup}, "|")
}

// groupName is the name of the Service's security group. It holds the Service's UID, so
// that it cannot be another cluster's.
func groupName(ref cloud.LoadBalancerRef) string {
	return cut(groupPrefix + ref.UID + "-" + ref.Namespace + "-" + ref.Name)
}

func groupDescription(ref cloud.LoadBalancerRef) string {
	return cut(fmt.Sprintf("Security Group for %s/%s Service LoadBalancer in cluster %s", ref.Namespace, ref.Name, ref.Cluster.Name))
}

// groupSources are the addresses from which the Nodes are reached.
type groupSources struct {
	// inside are the networks of the load balancer itself: where its connections and health
	// checks come from.
	inside []netip.Prefix
	// clients are those of the Service where the provider keeps their addresses; nil where
	// the load balancer connects by itself.
	clients []netip.Prefix
}

// groupRules are the rules that let the Service's traffic reach the Nodes: each node port
// from the load balancer's networks or, where it keeps the clients' addresses, from the
// clients, and the port of the health check of policy Local. Health checks of an ovn
// load balancer come from the members' networks.
func groupRules(w *lbWishes, s groupSources) []groupRule {
	_, monitored := w.monitor()
	rules := map[string]groupRule{}
	add := func(protocol string, port int32, from []netip.Prefix) {
		for _, p := range from {
			r := groupRule{Direction: ingress, EtherType: etherType(p), Protocol: strings.ToLower(protocol), Min: int(port), Max: int(port), Prefix: p.String()}
			rules[r.key()] = r
		}
	}
	for _, p := range w.spec.Ports {
		if p.NodePort == 0 {
			continue
		}
		add(string(p.Protocol), p.NodePort, s.clients)
		if s.clients == nil || monitored {
			add(string(p.Protocol), p.NodePort, without(s.inside, s.clients))
		}
	}
	if h := w.spec.HealthCheck; h != nil {
		add("tcp", h.Port, s.inside)
	}
	return slices.SortedFunc(maps.Values(rules), func(a, b groupRule) int { return cmp.Compare(a.key(), b.key()) })
}

// without are the prefixes that none of others holds.
func without(prefixes, others []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(prefixes), func(p netip.Prefix) bool {
		return slices.ContainsFunc(others, func(o netip.Prefix) bool { return o.Bits() <= p.Bits() && o.Contains(p.Addr()) })
	})
}

func etherType(p netip.Prefix) string {
	if p.Addr().Is6() {
		return "IPv6"
	}
	return "IPv4"
}

// diffRules returns the wanted rules that are missing and those that are too many. Rules
// that Neutron gave the new group, which let everything out, are too many as well: groups
// add up, and what a Node may send is not ours to open.
func diffRules(have, want []groupRule) (missing, surplus []groupRule) {
	wanted, there := map[string]bool{}, map[string]bool{}
	for _, r := range want {
		wanted[r.key()] = true
	}
	for _, r := range have {
		if !wanted[r.key()] {
			surplus = append(surplus, r)
		}
		there[r.key()] = true
	}
	for _, r := range want {
		if !there[r.key()] {
			missing = append(missing, r)
		}
	}
	return missing, surplus
}
