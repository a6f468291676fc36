package openstack

import (
	"context"
	"fmt"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// primaryLoadBalancers keeps load balancers, which live in the primary region, to that region:
// Nodes of others are no members, as Octavia could not reach them.
type primaryLoadBalancers struct {
	cloud.LoadBalancers
	primary string
}

// Ensure implements cloud.LoadBalancers.
func (l *primaryLoadBalancers) Ensure(ctx context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	own, others := l.own(spec)
	status, err := l.LoadBalancers.Ensure(ctx, own)
	if err != nil || len(others) == 0 {
		return status, err
	}
	told := *status
	told.Warnings = append(told.Warnings[:len(told.Warnings):len(told.Warnings)], fmt.Sprintf(
		"%d nodes get no traffic from the load balancer, which is in region %s and cannot reach their regions: %s", len(others), l.primary, limited(others)))
	return &told, nil
}

// UpdateMembers implements cloud.LoadBalancers.
func (l *primaryLoadBalancers) UpdateMembers(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	own, _ := l.own(spec)
	return l.LoadBalancers.UpdateMembers(ctx, own)
}

// own returns the spec with the members of the primary region, and the names of the others.
func (l *primaryLoadBalancers) own(spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerSpec, []string) {
	out := *spec
	out.Members, out.Candidates = nil, nil
	var others []string
	for _, m := range spec.Members {
		if home := regionOf(m.Node.ProviderID, l.primary); home == l.primary {
			out.Members = append(out.Members, m)
		} else {
			others = append(others, fmt.Sprintf("%s (%s)", m.Node.NodeName, home))
		}
	}
	for _, m := range spec.Candidates {
		if regionOf(m.Node.ProviderID, l.primary) == l.primary {
			out.Candidates = append(out.Candidates, m)
		}
	}
	return &out, others
}

// limited writes the first of many names.
func limited(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
