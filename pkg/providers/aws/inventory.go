package aws

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elb"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2"
	nlbplan "github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/vpc"
)

// groupKind is the kind of security groups.
const groupKind = "security group"

var _ cloud.Inventory = (*loadBalancers)(nil)

// owner has what a cluster has made, of the kinds that it knows.
type owner interface {
	Owned(ctx context.Context, cluster cloud.Cluster, vpc string) (out []cloud.Owned, inUse []string, err error)
	Remove(ctx context.Context, cluster cloud.Cluster, o cloud.Owned) error
}

// Owned implements cloud.Inventory. What is in another VPC than the cluster is not its own: two clusters may have one ID. Target groups and
// security groups are told where no load balancer has them, and go with it else. So do the rules in the security groups of Nodes.
func (l *loadBalancers) Owned(ctx context.Context, cluster cloud.Cluster) ([]cloud.Owned, error) {
	if cluster.ID == "" {
		return nil, cloud.Errorf(cloud.KindInvalid, "the cluster's ID is not known, by which its tags are; set KubernetesClusterID in [Global] of cloud.conf")
	}
	place, err := l.network.ID(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := l.network.OwnGroups(ctx, cluster) // before what has them, so that none looks unused
	if err != nil {
		return nil, err
	}
	var out []cloud.Owned
	used := map[string]bool{}
	for _, k := range []kind{network, classic} {
		some, inUse, err := l.kinds[k].Owned(ctx, cluster, place)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
		for _, id := range inUse {
			used[id] = true
		}
	}
	for _, g := range groups {
		if o, ok := ownedGroup(g); ok && !used[g.ID] {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b cloud.Owned) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
	return out, nil
}

// Forms of names and descriptions of the security groups that load balancers have of their own.
var (
	classicGroup       = regexp.MustCompile(`^k8s-elb-(a[0-9a-f]{31})$`)
	networkGroup       = regexp.MustCompile(`^k8s-[0-9A-Za-z]{0,8}-[0-9A-Za-z]{0,8}-[0-9a-f]{10}$`)
	classicDescription = regexp.MustCompile(`^Security group for Kubernetes ELB (a[0-9a-f]{31}) \(([^/ ]+/[^/ ]+)\)$`)
)

// ownedGroup is a security group that was made for a load balancer. That of a classic one tells the Service in its description, as the existing
// manager has it; another one does in a tag of ours only.
func ownedGroup(g vpc.OwnGroup) (cloud.Owned, bool) {
	o := cloud.Owned{Kind: groupKind, ID: g.ID, Name: g.Name, Mark: g.Mark}
	if name, text := classicGroup.FindStringSubmatch(g.Name), classicDescription.FindStringSubmatch(g.Description); name != nil && text != nil && name[1] == text[1] {
		o.Mark.Service = cmp.Or(o.Mark.Service, text[2])
		return o, o.Mark.Service == text[2]
	}
	return o, networkGroup.MatchString(g.Name) && g.Description == nlbplan.GroupDescription
}

// Remove implements cloud.Inventory.
func (l *loadBalancers) Remove(ctx context.Context, cluster cloud.Cluster, o cloud.Owned) error {
	switch namespace, name, ok := strings.Cut(o.Mark.Service, "/"); {
	case !ok || namespace == "" || name == "":
		return cloud.Errorf(cloud.KindInvalid, "%s %s does not tell which Service it was made for", o.Kind, o.ID)
	case o.Kind == elb.BalancerKind:
		return l.kinds[classic].Remove(ctx, cluster, o)
	case o.Kind == elbv2.BalancerKind, o.Kind == elbv2.GroupKind:
		return l.kinds[network].Remove(ctx, cluster, o)
	case o.Kind == groupKind:
		return l.removeGroup(ctx, cluster, o)
	}
	return cloud.Errorf(cloud.KindInvalid, "%s %s is of a kind that is not made here", o.Kind, o.ID)
}

// removeGroup deletes a security group, and what Nodes let in of it where nothing else has it. EC2 deletes none that something has.
func (l *loadBalancers) removeGroup(ctx context.Context, cluster cloud.Cluster, o cloud.Owned) error {
	g, err := l.network.OwnGroup(ctx, cluster, o.ID)
	if err != nil {
		return cloud.IgnoreNotFound(err)
	}
	if now, ok := ownedGroup(g); !ok || now.Mark != o.Mark || now.Name != o.Name {
		return cloud.Errorf(cloud.KindConflict, "security group %s is not what it was: it is named %q now", o.ID, g.Name)
	}
	namespace, name, _ := strings.Cut(o.Mark.Service, "/")
	ref := cloud.LoadBalancerRef{Cluster: cluster, Namespace: namespace, Name: name, UID: o.ID}
	if err := l.network.DeleteNodeRules(ctx, ref, vpc.NodeRules{SharedFormer: o.ID}); err != nil {
		return err
	}
	return l.network.DeleteGroup(ctx, ref, o.Name)
}
