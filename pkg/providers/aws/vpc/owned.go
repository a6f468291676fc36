package vpc

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

// OwnGroup is a security group that the cluster has made, as its tags say.
type OwnGroup struct {
	ID, Name, Description string
	// Mark has the Service where the tags tell it.
	Mark cloud.Mark
}

// OwnGroups are the security groups of the VPC that the cluster has made, as its tags say. Others than load balancers' are among them.
func (n *Network) OwnGroups(ctx context.Context, cluster cloud.Cluster) ([]OwnGroup, error) {
	all, err := n.groups.Since(ctx, n.now(), n.listGroups)
	if err != nil {
		return nil, err
	}
	var out []OwnGroup
	for _, g := range all {
		if own, ok := n.ownGroup(g, cluster); ok {
			out = append(out, own)
		}
	}
	return out, nil
}

// OwnGroup is one of OwnGroups as it is now. It is KindNotFound where it is gone, and KindConflict where it is somebody else's.
func (n *Network) OwnGroup(ctx context.Context, cluster cloud.Cluster, id string) (OwnGroup, error) {
	now, err := n.groupNow(ctx, id)
	if err != nil {
		return OwnGroup{}, err
	}
	if now == nil {
		return OwnGroup{}, cloud.Errorf(cloud.KindNotFound, "there is no security group %s", id)
	}
	own, ok := n.ownGroup(now, cluster)
	if !ok {
		return OwnGroup{}, cloud.Errorf(cloud.KindConflict, "security group %s does not have the cluster's tags any more", id)
	}
	return own, nil
}

func (n *Network) ownGroup(g *types.SecurityGroup, cluster cloud.Cluster) (OwnGroup, bool) {
	proof, ok := tags.Made(g.Tags, cluster.ID, cluster.UID)
	own := OwnGroup{ID: aws.ToString(g.GroupId), Name: aws.ToString(g.GroupName), Description: aws.ToString(g.Description),
		Mark: cloud.Mark{ClusterUID: proof, ClusterID: cluster.ID, Service: tags.ServiceOf(g.Tags)}}
	return own, ok && own.ID != n.cfg.ElbSecurityGroup
}
