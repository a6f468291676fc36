package places

import (
	"context"
	"fmt"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// loadBalancers keeps load balancers, which live in the first place, to that place: Nodes of
// others are no members, as they could not be reached.
type loadBalancers struct {
	cloud.LoadBalancers
	*joined
}

// Attach implements cloud.Waiting, for a place that may not.
func (l *loadBalancers) Attach(ctx context.Context, again func(cloud.LoadBalancerRef)) {
	if w, ok := l.LoadBalancers.(cloud.Waiting); ok {
		w.Attach(ctx, again)
	}
}

// Ensure implements cloud.LoadBalancers.
func (l *loadBalancers) Ensure(ctx context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	own, others := l.own(spec)
	status, err := l.LoadBalancers.Ensure(ctx, own)
	if err != nil || len(others) == 0 {
		return status, err
	}
	told := *status
	told.Warnings = append(told.Warnings[:len(told.Warnings):len(told.Warnings)], fmt.Sprintf(
		"%d nodes get no traffic from the load balancer, which is in %s %s and cannot reach their %[2]ss: %[4]s", len(others), l.words.Place, l.all[0].Name, some(others)))
	return &told, nil
}

// UpdateMembers implements cloud.LoadBalancers.
func (l *loadBalancers) UpdateMembers(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	own, _ := l.own(spec)
	return l.LoadBalancers.UpdateMembers(ctx, own)
}

// own returns the spec with the members of the first place, and the names of the others.
func (l *loadBalancers) own(spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerSpec, []string) {
	out := *spec
	out.Members, out.Candidates = nil, nil
	var others []string
	for _, m := range spec.Members {
		if home := l.home(m.Node); home == l.all[0].Name {
			out.Members = append(out.Members, m)
		} else {
			others = append(others, fmt.Sprintf("%s (%s)", m.Node.NodeName, home))
		}
	}
	for _, m := range spec.Candidates {
		if l.home(m.Node) == l.all[0].Name {
			out.Candidates = append(out.Candidates, m)
		}
	}
	return &out, others
}
