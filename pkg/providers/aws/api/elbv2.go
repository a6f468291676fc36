package api

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	// elbPage is how many objects a page of load balancers, target groups or listeners has at most.
	elbPage = 400
	// maxTagged is how many objects one request asks about the tags of.
	maxTagged = 20
	// maxTargets is how many targets one request registers or deregisters: AWS states no limit, and the existing manager
	// sends a hundred.
	maxTargets = 100
)

// Balancers reads all load balancers of the region that are not classic, of every type and everybody's.
func (c *Client) Balancers(ctx context.Context) (found []types.LoadBalancer, err error) {
	const op = "list load balancers"
	err = everyPage(op, func(marker *string) (*string, error) {
		out, _, err := call(ctx, c, op, "", func(ctx context.Context, p *place) (*elbv2.DescribeLoadBalancersOutput, error) {
			return p.elbv2.DescribeLoadBalancers(ctx, &elbv2.DescribeLoadBalancersInput{Marker: marker, PageSize: aws.Int32(elbPage)})
		})
		if err != nil {
			return nil, err
		}
		found = append(found, out.LoadBalancers...)
		return out.NextMarker, nil
	})
	return found, err
}

// TargetGroups reads all target groups of the region, everybody's.
func (c *Client) TargetGroups(ctx context.Context) (found []types.TargetGroup, err error) {
	const op = "list target groups"
	err = everyPage(op, func(marker *string) (*string, error) {
		out, _, err := call(ctx, c, op, "", func(ctx context.Context, p *place) (*elbv2.DescribeTargetGroupsOutput, error) {
			return p.elbv2.DescribeTargetGroups(ctx, &elbv2.DescribeTargetGroupsInput{Marker: marker, PageSize: aws.Int32(elbPage)})
		})
		if err != nil {
			return nil, err
		}
		found = append(found, out.TargetGroups...)
		return out.NextMarker, nil
	})
	return found, err
}

// Listeners reads all listeners of a load balancer.
func (c *Client) Listeners(ctx context.Context, balancer string) (found []types.Listener, err error) {
	const op = "list listeners of"
	err = everyPage(op, func(marker *string) (*string, error) {
		out, _, err := call(ctx, c, op, balancer, func(ctx context.Context, p *place) (*elbv2.DescribeListenersOutput, error) {
			return p.elbv2.DescribeListeners(ctx,
				&elbv2.DescribeListenersInput{LoadBalancerArn: &balancer, Marker: marker, PageSize: aws.Int32(elbPage)})
		})
		if err != nil {
			return nil, err
		}
		found = append(found, out.Listeners...)
		return out.NextMarker, nil
	})
	return found, err
}

// TargetHealth reads the targets of a target group, with what is known of them; those that are going are among them.
func (c *Client) TargetHealth(ctx context.Context, group string) ([]types.TargetHealthDescription, error) {
	out, _, err := call(ctx, c, "list targets of", group, func(ctx context.Context, p *place) (*elbv2.DescribeTargetHealthOutput, error) {
		return p.elbv2.DescribeTargetHealth(ctx, &elbv2.DescribeTargetHealthInput{TargetGroupArn: &group})
	})
	if err != nil {
		return nil, err
	}
	return out.TargetHealthDescriptions, nil
}

// BalancerAttributes reads a load balancer's attributes.
func (c *Client) BalancerAttributes(ctx context.Context, balancer string) (map[string]string, error) {
	out, _, err := call(ctx, c, "get attributes of", balancer,
		func(ctx context.Context, p *place) (*elbv2.DescribeLoadBalancerAttributesOutput, error) {
			return p.elbv2.DescribeLoadBalancerAttributes(ctx, &elbv2.DescribeLoadBalancerAttributesInput{LoadBalancerArn: &balancer})
		})
	if err != nil {
		return nil, err
	}
	all := make(map[string]string, len(out.Attributes))
	for _, a := range out.Attributes {
		all[aws.ToString(a.Key)] = aws.ToString(a.Value)
	}
	return all, nil
}

// GroupAttributes reads a target group's attributes.
func (c *Client) GroupAttributes(ctx context.Context, group string) (map[string]string, error) {
	out, _, err := call(ctx, c, "get attributes of", group,
		func(ctx context.Context, p *place) (*elbv2.DescribeTargetGroupAttributesOutput, error) {
			return p.elbv2.DescribeTargetGroupAttributes(ctx, &elbv2.DescribeTargetGroupAttributesInput{TargetGroupArn: &group})
		})
	if err != nil {
		return nil, err
	}
	all := make(map[string]string, len(out.Attributes))
	for _, a := range out.Attributes {
		all[aws.ToString(a.Key)] = aws.ToString(a.Value)
	}
	return all, nil
}

// TagsOf reads the tags of load balancers, target groups and listeners, by their ARNs, in as few requests as there can be. Where
// one of them is gone, its request is divided: what is missing in the answer is not there any more.
func (c *Client) TagsOf(ctx context.Context, arns []string) (map[string]map[string]string, error) {
	found := make(map[string]map[string]string, len(arns))
	for some := range slices.Chunk(arns, maxTagged) {
		if err := c.tagsOf(ctx, some, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (c *Client) tagsOf(ctx context.Context, arns []string, found map[string]map[string]string) error {
	out, _, err := call(ctx, c, "list tags", "", func(ctx context.Context, p *place) (*elbv2.DescribeTagsOutput, error) {
		return p.elbv2.DescribeTags(ctx, &elbv2.DescribeTagsInput{ResourceArns: arns})
	})
	switch {
	case cloud.IsNotFound(err) && len(arns) == 1:
		return nil
	case cloud.IsNotFound(err):
		if err := c.tagsOf(ctx, arns[:len(arns)/2], found); err != nil {
			return err
		}
		return c.tagsOf(ctx, arns[len(arns)/2:], found)
	case err != nil:
		return err
	}
	for _, d := range out.TagDescriptions {
		tags := make(map[string]string, len(d.Tags))
		for _, t := range d.Tags {
			tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
		found[aws.ToString(d.ResourceArn)] = tags
	}
	return nil
}
