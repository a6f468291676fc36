package elb

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elb/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

// BalancerKind is what Owned lists.
const BalancerKind = "classic load balancer"

// Owned are the classic load balancers that a cluster has made in a VPC. inUse are the security groups that classic load balancers have.
func (l *LoadBalancers) Owned(ctx context.Context, cluster cloud.Cluster, vpc string) (out []cloud.Owned, inUse []string, err error) {
	all, err := l.all.all.Since(ctx, time.Now(), l.all.list)
	if err != nil {
		return nil, nil, err
	}
	var asked []tagsAsked
	for name, b := range all {
		inUse = append(inUse, b.read.SecurityGroups...)
		if ours.MatchString(name) && aws.ToString(b.read.VPCId) == vpc {
			asked = append(asked, tagsAsked{name, true})
		}
	}
	for a, found := range l.all.readTags(ctx, asked) {
		if cloud.IsNotFound(found.Err) {
			continue // it is gone since
		}
		if found.Err != nil {
			return nil, nil, found.Err
		}
		if o := owned(all[a.name].read, found.Value, cluster); o != nil {
			out = append(out, *o)
		}
	}
	return out, inUse, nil
}

// owned is what a load balancer is to a cluster, nil where that has not made it.
func owned(b *types.LoadBalancerDescription, has map[string]string, cluster cloud.Cluster) *cloud.Owned {
	proof, ok := tags.Made(api.Tags(has), cluster.ID, cluster.UID)
	name := aws.ToString(b.LoadBalancerName)
	if !ok || has[plan.Service] == "" || !ours.MatchString(name) {
		return nil
	}
	return &cloud.Owned{Kind: BalancerKind, ID: name, Name: name, Created: aws.ToTime(b.CreatedTime), Addresses: []string{aws.ToString(b.DNSName)},
		Mark: cloud.Mark{ClusterUID: proof, ClusterID: cluster.ID, Service: has[plan.Service]}}
}

// Remove deletes a load balancer that Owned has listed, as Delete does for its Service, whose UID is known but for its last digit: that
// is in no name here. Of one that is gone, the rest is deleted.
func (l *LoadBalancers) Remove(ctx context.Context, cluster cloud.Cluster, o cloud.Owned) error {
	b, err := l.all.get(ctx, o.ID, true)
	if err != nil {
		return err
	}
	if b != nil {
		has, err := l.all.tags(ctx, o.ID, true)
		if err != nil {
			return err
		}
		if now := owned(b, has, cluster); now == nil || now.Mark != o.Mark || !now.Created.Equal(o.Created) {
			return cloud.Errorf(cloud.KindConflict, "classic load balancer %s is not what it was: its tags are %q now, and it is of %s", o.ID, has, b.CreatedTime)
		}
	}
	namespace, name, _ := strings.Cut(o.Mark.Service, "/")
	ref := cloud.LoadBalancerRef{Cluster: cluster, Namespace: namespace, Name: name, UID: strings.TrimPrefix(o.Name, "a")}
	return l.Delete(ctx, &cloud.LoadBalancerSpec{LoadBalancerRef: ref})
}
