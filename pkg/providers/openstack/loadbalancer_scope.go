package openstack

import (
	"context"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/providerid"
)

// witnesses is how many Nodes' servers are asked for at most, so that some may have gone.
const witnesses = 5

// checkScope refuses to make the load balancer of a Service anew that was served before where none
// of its Nodes' servers is known either: Octavia says "not found" in the same words of a load balancer
// that is gone and of one that is in the project which other credentials were for. All Services would
// get other load balancers there and lose their addresses. Where no Node tells, or Nova is not to be
// asked, the load balancer is made.
func (o *lbOperation) checkScope(ctx context.Context, w *lbWishes) error {
	asked := 0
	for _, m := range append(w.spec.Members[:len(w.spec.Members):len(w.spec.Members)], w.spec.Candidates...) {
		id, region, err := providerid.Parse(m.Node.ProviderID)
		if err != nil || region != "" && region != o.lb.c.Region() || asked == witnesses {
			continue
		}
		switch err := o.lb.server(ctx, id); {
		case !cloud.IsNotFound(err):
			return ignoreRefusal(err)
		default:
			asked++
		}
	}
	if asked == 0 {
		return nil
	}
	return cloud.Errorf(cloud.KindConflict, "load balancer %s is not found in %s, and neither are the servers of %d nodes: it is not made anew, as cloud.conf may be that of another project or region. If the load balancer is gone all the same, remove the annotations %s and %s",
		w.names.lb, api.ScopeOf(o.octavia), asked, annLoadBalancerID, annAddress)
}

// ignoreRefusal is nil for a refusal that time does not mend.
func ignoreRefusal(err error) error {
	if isRefusal(err) {
		return nil
	}
	return err
}
