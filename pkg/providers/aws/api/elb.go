package api

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// ClassicBalancers reads all classic load balancers of the region, everybody's.
func (c *Client) ClassicBalancers(ctx context.Context) (found []types.LoadBalancerDescription, err error) {
	const op = "list classic load balancers"
	err = everyPage(op, func(marker *string) (*string, error) {
		out, _, err := call(ctx, c, op, "", func(ctx context.Context, p *place) (*elb.DescribeLoadBalancersOutput, error) {
			return p.elb.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{Marker: marker, PageSize: aws.Int32(elbPage)})
		})
		if err != nil {
			return nil, err
		}
		found = append(found, out.LoadBalancerDescriptions...)
		return out.NextMarker, nil
	})
	return found, err
}

// ClassicBalancer reads a classic load balancer directly, nil for none.
func (c *Client) ClassicBalancer(ctx context.Context, name string) (*types.LoadBalancerDescription, error) {
	out, _, err := call(ctx, c, "get classic load balancer", name, func(ctx context.Context, p *place) (*elb.DescribeLoadBalancersOutput, error) {
		return p.elb.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{LoadBalancerNames: []string{name}})
	})
	if err != nil || len(out.LoadBalancerDescriptions) == 0 {
		return nil, cloud.IgnoreNotFound(err)
	}
	return &out.LoadBalancerDescriptions[0], nil
}

// ClassicTags reads the tags of classic load balancers by their names, at most MaxTagged of them.
func (c *Client) ClassicTags(ctx context.Context, names []string) (map[string]map[string]string, error) {
	out, _, err := call(ctx, c, "list tags of classic load balancers", "", func(ctx context.Context, p *place) (*elb.DescribeTagsOutput, error) {
		return p.elb.DescribeTags(ctx, &elb.DescribeTagsInput{LoadBalancerNames: names})
	})
	if err != nil {
		return nil, err
	}
	found := map[string]map[string]string{}
	for _, d := range out.TagDescriptions {
		tags := map[string]string{}
		for _, t := range d.Tags {
			tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
		found[aws.ToString(d.LoadBalancerName)] = tags
	}
	return found, nil
}

// MaxTagged is how many classic load balancers ClassicTags can be asked about at once.
const MaxTagged = maxTagged

// ClassicAttributes reads a classic load balancer's attributes.
func (c *Client) ClassicAttributes(ctx context.Context, name string) (*types.LoadBalancerAttributes, error) {
	out, _, err := call(ctx, c, "get attributes of classic load balancer", name, func(ctx context.Context, p *place) (*elb.DescribeLoadBalancerAttributesOutput, error) {
		return p.elb.DescribeLoadBalancerAttributes(ctx, &elb.DescribeLoadBalancerAttributesInput{LoadBalancerName: &name})
	})
	if err != nil {
		return nil, err
	}
	if out.LoadBalancerAttributes == nil {
		out.LoadBalancerAttributes = &types.LoadBalancerAttributes{}
	}
	return out.LoadBalancerAttributes, nil
}

// CreateClassicBalancer makes a classic load balancer and returns its DNS name. It is KindStale where there is one of that name
// with other settings.
func (c *Client) CreateClassicBalancer(ctx context.Context, in *elb.CreateLoadBalancerInput) (string, error) {
	out, _, err := call(ctx, c, "create classic load balancer", aws.ToString(in.LoadBalancerName), func(ctx context.Context, p *place) (*elb.CreateLoadBalancerOutput, error) {
		return p.elb.CreateLoadBalancer(ctx, in)
	})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.DNSName), nil
}

// DeleteClassicBalancer deletes a classic load balancer. One that is not there is gone.
func (c *Client) DeleteClassicBalancer(ctx context.Context, name string) error {
	return changeClassic(ctx, c, subject{"delete classic load balancer", name}, (*elb.Client).DeleteLoadBalancer,
		&elb.DeleteLoadBalancerInput{LoadBalancerName: &name})
}

// subject is what is done to which load balancer.
type subject struct{ op, name string }

// changeClassic makes a call that changes a classic load balancer.
func changeClassic[In, Out any](ctx context.Context, c *Client, s subject,
	send func(*elb.Client, context.Context, *In, ...func(*elb.Options)) (*Out, error), in *In,
) error {
	_, _, err := call(ctx, c, s.op, s.name, func(ctx context.Context, p *place) (*Out, error) { return send(p.elb, ctx, in) })
	return err
}

// AddClassicListeners adds listeners. It is KindStale where a port has another one.
func (c *Client) AddClassicListeners(ctx context.Context, name string, listeners []types.Listener) error {
	return changeClassic(ctx, c, subject{"add listeners to", name}, (*elb.Client).CreateLoadBalancerListeners,
		&elb.CreateLoadBalancerListenersInput{LoadBalancerName: &name, Listeners: listeners})
}

// RemoveClassicListeners removes the listeners of ports.
func (c *Client) RemoveClassicListeners(ctx context.Context, name string, ports []int32) error {
	return changeClassic(ctx, c, subject{"remove listeners from", name}, (*elb.Client).DeleteLoadBalancerListeners,
		&elb.DeleteLoadBalancerListenersInput{LoadBalancerName: &name, LoadBalancerPorts: ports})
}

// AttachClassic adds subnets.
func (c *Client) AttachClassic(ctx context.Context, name string, subnets []string) error {
	return changeClassic(ctx, c, subject{"add subnets to", name}, (*elb.Client).AttachLoadBalancerToSubnets,
		&elb.AttachLoadBalancerToSubnetsInput{LoadBalancerName: &name, Subnets: subnets})
}

// DetachClassic removes subnets.
func (c *Client) DetachClassic(ctx context.Context, name string, subnets []string) error {
	return changeClassic(ctx, c, subject{"remove subnets from", name}, (*elb.Client).DetachLoadBalancerFromSubnets,
		&elb.DetachLoadBalancerFromSubnetsInput{LoadBalancerName: &name, Subnets: subnets})
}

// SetClassicGroups replaces the security groups.
func (c *Client) SetClassicGroups(ctx context.Context, name string, groups []string) error {
	return changeClassic(ctx, c, subject{"set security groups of", name}, (*elb.Client).ApplySecurityGroupsToLoadBalancer,
		&elb.ApplySecurityGroupsToLoadBalancerInput{LoadBalancerName: &name, SecurityGroups: groups})
}

// SetClassicCheck says how instances are checked.
func (c *Client) SetClassicCheck(ctx context.Context, name string, check *types.HealthCheck) error {
	return changeClassic(ctx, c, subject{"set health check of", name}, (*elb.Client).ConfigureHealthCheck,
		&elb.ConfigureHealthCheckInput{LoadBalancerName: &name, HealthCheck: check})
}

// SetClassicAttributes changes attributes; what is nil stays.
func (c *Client) SetClassicAttributes(ctx context.Context, name string, a *types.LoadBalancerAttributes) error {
	return changeClassic(ctx, c, subject{"set attributes of", name}, (*elb.Client).ModifyLoadBalancerAttributes,
		&elb.ModifyLoadBalancerAttributesInput{LoadBalancerName: &name, LoadBalancerAttributes: a})
}

// AddClassicPolicy adds a policy with one attribute. It is KindStale where there is one of that name.
func (c *Client) AddClassicPolicy(ctx context.Context, name, policy, kind string, attribute [2]string) error {
	return changeClassic(ctx, c, subject{"add policy " + policy + " to", name}, (*elb.Client).CreateLoadBalancerPolicy,
		&elb.CreateLoadBalancerPolicyInput{LoadBalancerName: &name, PolicyName: &policy,
			PolicyTypeName: &kind, PolicyAttributes: []types.PolicyAttribute{{AttributeName: &attribute[0], AttributeValue: &attribute[1]}}})
}

// SetClassicBackend sets the policies for a port of instances; none is an empty list.
func (c *Client) SetClassicBackend(ctx context.Context, name string, port int32, policies []string) error {
	return changeClassic(ctx, c, subject{"set policies of a port of instances of", name}, (*elb.Client).SetLoadBalancerPoliciesForBackendServer,
		&elb.SetLoadBalancerPoliciesForBackendServerInput{LoadBalancerName: &name, InstancePort: &port, PolicyNames: append([]string{}, policies...)})
}

// SetClassicListenerPolicies sets the policies of the listener of a port.
func (c *Client) SetClassicListenerPolicies(ctx context.Context, name string, port int32, policies []string) error {
	return changeClassic(ctx, c, subject{"set policies of a listener of", name}, (*elb.Client).SetLoadBalancerPoliciesOfListener,
		&elb.SetLoadBalancerPoliciesOfListenerInput{LoadBalancerName: &name, LoadBalancerPort: port, PolicyNames: policies})
}

// RegisterClassic adds instances, all or none. It is KindStale where one is not there any more.
func (c *Client) RegisterClassic(ctx context.Context, name string, ids []string) error {
	return changeClassic(ctx, c, subject{"register instances with", name}, (*elb.Client).RegisterInstancesWithLoadBalancer,
		&elb.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: &name, Instances: classicInstances(ids)})
}

// DeregisterClassic removes instances.
func (c *Client) DeregisterClassic(ctx context.Context, name string, ids []string) error {
	return changeClassic(ctx, c, subject{"deregister instances from", name}, (*elb.Client).DeregisterInstancesFromLoadBalancer,
		&elb.DeregisterInstancesFromLoadBalancerInput{LoadBalancerName: &name, Instances: classicInstances(ids)})
}

func classicInstances(ids []string) []types.Instance {
	out := make([]types.Instance, 0, len(ids))
	for _, id := range ids {
		out = append(out, types.Instance{InstanceId: aws.String(id)})
	}
	return out
}

// AddClassicTags adds tags, or replaces their values.
func (c *Client) AddClassicTags(ctx context.Context, name string, tags map[string]string) error {
	return changeClassic(ctx, c, subject{"tag", name}, (*elb.Client).AddTags,
		&elb.AddTagsInput{LoadBalancerNames: []string{name}, Tags: ClassicTagsOf(tags)})
}

// ClassicTagsOf are tags as requests of classic Elastic Load Balancing have them, sorted.
func ClassicTagsOf(tags map[string]string) []types.Tag {
	var out []types.Tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return out
}
