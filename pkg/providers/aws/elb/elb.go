package elb

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elb/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
)

// Network is what classic load balancers need of the VPC.
type Network interface {
	Subnets(ctx context.Context, internal bool, named []string) ([]vpc.Subnet, error)
	Instances(ctx context.Context, members []cloud.LoadBalancerMember) (found map[string]vpc.Instance, later, err error)
	ForgetInstances(ids ...string)
	groups
	nodes
}

// groups are the load balancers' own security groups.
type groups interface {
	EnsureGroup(ctx context.Context, ref cloud.LoadBalancerRef, g vpc.Group, rules []vpc.Rule) (id string, changed []string, err error)
	FindGroup(ctx context.Context, ref cloud.LoadBalancerRef, name string) (string, error)
	DeleteGroup(ctx context.Context, ref cloud.LoadBalancerRef, name string) error
}

// nodes are the security groups of Nodes.
type nodes interface {
	EnsureNodeRules(ctx context.Context, ref cloud.LoadBalancerRef, want vpc.NodeRules) (changed []string, err error)
	DeleteNodeRules(ctx context.Context, ref cloud.LoadBalancerRef, hint vpc.NodeRules) error
}

var _ Network = (*vpc.Network)(nil)

// LoadBalancers are the classic ones.
type LoadBalancers struct {
	c   *api.Client
	cfg *config.Global
	// cluster is the ID in the cluster's tag.
	cluster func() string
	net     Network
	all     *balancers
	// repairs are what verifications that have not ended have put right, by names of load balancers.
	repairs inventory.Memory[string, []string]
	// formers are the groups that load balancers had in place of their own, and have no more, until nothing is let in of them, by names of
	// load balancers.
	formers inventory.Memory[string, string]
}

var _ cloud.LoadBalancers = (*LoadBalancers)(nil)

// New makes the classic load balancers of the client's region. cluster is the ID in the cluster's tag, "" while it is not known.
func New(c *api.Client, cfg *config.Global, cluster func() string, n Network) *LoadBalancers {
	return &LoadBalancers{c: c, cfg: cfg, cluster: cluster, net: n, all: newBalancers(c)}
}

// Serves reports whether there is a classic load balancer with the Service's name, whoever it belongs to.
func (l *LoadBalancers) Serves(ctx context.Context, ref cloud.LoadBalancerRef) (bool, error) {
	b, err := l.all.get(ctx, plan.Name(ref), false)
	return b != nil, err
}

// Exists reports whether there is a classic load balancer with the Service's name, whoever it belongs to, or its security group.
func (l *LoadBalancers) Exists(ctx context.Context, ref cloud.LoadBalancerRef) (bool, error) {
	if serves, err := l.Serves(ctx, ref); err != nil || serves {
		return serves, err
	}
	group, err := l.net.FindGroup(ctx, ref, plan.GroupName(ref))
	return group != "", err
}

// retryStale is when to look again at what others have changed.
const retryStale = 2 * time.Second

// retryStopped is when to look again whether an instance runs by now.
const retryStopped = 10 * time.Second

// find is the load balancer of the Service, nil for none. marked is false for one that has to be marked first. One that is somebody
// else's is KindConflict.
func (l *LoadBalancers) find(ctx context.Context, ref cloud.LoadBalancerRef, verify bool) (seen *plan.Observed, marked bool, err error) {
	name := plan.Name(ref)
	b, err := l.all.get(ctx, name, verify)
	if err != nil || b == nil {
		return nil, false, err
	}
	seen = observed(b)
	if seen.Tags, err = l.all.tags(ctx, name, verify); err != nil {
		return nil, false, err
	}
	switch whose := l.judge(ref, seen); whose {
	case cloud.Foreign:
		return nil, false, cloud.Errorf(cloud.KindConflict,
			"classic load balancer %s has the name of the Service's, but not its tags, %s=%s/%s and %s; correct them if it is, or delete it",
			name, plan.Service, ref.Namespace, ref.Name, tags.Key(l.cluster()))
	default:
		return seen, whose == cloud.Ours, nil
	}
}

// judge says whose a load balancer with the Service's name is.
func (l *LoadBalancers) judge(ref cloud.LoadBalancerRef, seen *plan.Observed) cloud.Ownership {
	cluster := l.cluster()
	m := cloud.Mark{Service: seen.Tags[plan.Service]}
	if has := api.Tags(seen.Tags); tags.Has(has, cluster) {
		m.ClusterID = cluster
	} else if other, err := tags.ClusterOf(has); err == nil {
		m.ClusterID = other
	}
	ref.Cluster.ID = cluster
	shows := func(i corev1.LoadBalancerIngress) bool { return i.Hostname == seen.DNSName }
	published := slices.ContainsFunc(ref.CurrentIngress, shows)
	return cloud.Judge(m, cloud.Evidence{NameFits: true, Published: published}, ref)
}

// tags are those of a new load balancer.
func (l *LoadBalancers) tags(ref cloud.LoadBalancerRef, more map[string]string) map[string]string {
	out := maps.Clone(more)
	out[plan.Service] = ref.Namespace + "/" + ref.Name
	return tags.New(l.cluster(), l.cfg.KubernetesClusterTag != "", out)
}
