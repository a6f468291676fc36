package api

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// SecurityGroups reads every page of the security groups that pass all filters.
func (c *Client) SecurityGroups(ctx context.Context, filters ...types.Filter) (found []types.SecurityGroup, err error) {
	const op = "list security groups"
	err = everyPage(op, func(token *string) (*string, error) {
		out, _, err := call(ctx, c, op, "", func(ctx context.Context, p *place) (*ec2.DescribeSecurityGroupsOutput, error) {
			return p.ec2.DescribeSecurityGroups(ctx,
				&ec2.DescribeSecurityGroupsInput{Filters: filters, MaxResults: aws.Int32(pageSize), NextToken: token})
		})
		if err != nil {
			return nil, err
		}
		found = append(found, out.SecurityGroups...)
		return out.NextToken, nil
	})
	return found, err
}

// CreateSecurityGroup makes a security group with tags and returns its ID. It is KindStale where the VPC has one of that name.
func (c *Client) CreateSecurityGroup(ctx context.Context, vpc, name, description string, tags map[string]string) (id string, err error) {
	const op = "create security group"
	out, _, err := call(ctx, c, op, name, func(ctx context.Context, p *place) (*ec2.CreateSecurityGroupOutput, error) {
		return p.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: &name, Description: &description,
			TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSecurityGroup, Tags: Tags(tags)}}})
	})
	if err != nil {
		return "", err
	}
	if id = aws.ToString(out.GroupId); id == "" {
		return "", &cloud.Error{Op: op + " " + name, Err: errNoID}
	}
	return id, nil
}

// DeleteSecurityGroup deletes a security group. It is KindConflict while something uses it.
func (c *Client) DeleteSecurityGroup(ctx context.Context, id string) error {
	_, _, err := call(ctx, c, "delete security group", id, func(ctx context.Context, p *place) (*ec2.DeleteSecurityGroupOutput, error) {
		return p.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &id})
	})
	return err
}

// AuthorizeIngress adds rules to a security group, all or none. It is KindStale where the group has one already, and KindNotFound
// where the group, or one that a rule names, is not there.
func (c *Client) AuthorizeIngress(ctx context.Context, id string, rules []types.IpPermission) error {
	// It may be another group that is not there.
	_, _, err := call(ctx, c, "add rules to security group "+id, "",
		func(ctx context.Context, p *place) (*ec2.AuthorizeSecurityGroupIngressOutput, error) {
			return p.ec2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &id, IpPermissions: rules})
		})
	return err
}

// RevokeIngress takes rules out of a security group. It is KindNotFound where the group does not have one, or is gone.
func (c *Client) RevokeIngress(ctx context.Context, id string, rules []types.IpPermission) error {
	// What EC2 says of a rule that is not there does not name the group.
	_, _, err := call(ctx, c, "take rules out of security group "+id, "",
		func(ctx context.Context, p *place) (*ec2.RevokeSecurityGroupIngressOutput, error) {
			return p.ec2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &id, IpPermissions: rules})
		})
	return err
}

// Tags are tags as EC2 takes them, sorted.
func Tags(tags map[string]string) []types.Tag {
	var out []types.Tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return out
}
