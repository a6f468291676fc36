package api

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
)

// Objects are what Trials are about, by their IDs; what is empty is not tried.
type Objects struct{ VPC, Group, Table, Instance string }

// Trial is a request that EC2 is asked about (parameter DryRun) and does not carry out.
type Trial struct {
	// Action is what it needs, as IAM has it.
	Action string
	send   func(context.Context, *ec2.Client) error
}

// dry makes a Trial; in has DryRun set.
func dry[In, Out any](action string, send func(*ec2.Client, context.Context, *In, ...func(*ec2.Options)) (*Out, error), in *In) Trial {
	return Trial{Action: "ec2:" + action, send: func(ctx context.Context, c *ec2.Client) error {
		_, err := send(c, ctx, in)
		return err
	}}
}

// tried is what rules and routes of trials are about: addresses that are nobody's (RFC 5737).
const tried = "192.0.2.0/24"

// Reads are the Trials of what is read.
func Reads() []Trial {
	yes, few := aws.Bool(true), aws.Int32(fewest)
	return []Trial{
		dry("DescribeInstances", (*ec2.Client).DescribeInstances, &ec2.DescribeInstancesInput{DryRun: yes, MaxResults: few}),
		dry("DescribeInstanceTopology", (*ec2.Client).DescribeInstanceTopology, &ec2.DescribeInstanceTopologyInput{DryRun: yes, MaxResults: few}),
		dry("DescribeAvailabilityZones", (*ec2.Client).DescribeAvailabilityZones, &ec2.DescribeAvailabilityZonesInput{DryRun: yes}),
		dry("DescribeVolumes", (*ec2.Client).DescribeVolumes, &ec2.DescribeVolumesInput{DryRun: yes, MaxResults: few}),
		dry("DescribeSubnets", (*ec2.Client).DescribeSubnets, &ec2.DescribeSubnetsInput{DryRun: yes, MaxResults: few}),
		dry("DescribeRouteTables", (*ec2.Client).DescribeRouteTables, &ec2.DescribeRouteTablesInput{DryRun: yes, MaxResults: few}),
		dry("DescribeSecurityGroups", (*ec2.Client).DescribeSecurityGroups, &ec2.DescribeSecurityGroupsInput{DryRun: yes, MaxResults: few}),
		dry("DescribeNetworkInterfaces", (*ec2.Client).DescribeNetworkInterfaces, &ec2.DescribeNetworkInterfacesInput{DryRun: yes, MaxResults: few}),
	}
}

// Changes are the Trials of what is changed, for AWS' own endpoint alone. tags are those of what is made: policies may ask for them.
func Changes(o Objects, tags map[string]string) (out []Trial) {
	yes := aws.Bool(true)
	rules := []types.IpPermission{{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(1), ToPort: aws.Int32(1), IpRanges: []types.IpRange{{CidrIp: aws.String(tried)}}}}
	if o.VPC != "" {
		out = append(out, dry("CreateSecurityGroup", (*ec2.Client).CreateSecurityGroup, &ec2.CreateSecurityGroupInput{DryRun: yes, VpcId: &o.VPC,
			GroupName: aws.String("isthmus-doctor"), Description: aws.String("it is never made"),
			TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSecurityGroup, Tags: Tags(tags)}}}))
	}
	if o.Group != "" {
		out = append(out,
			dry("AuthorizeSecurityGroupIngress", (*ec2.Client).AuthorizeSecurityGroupIngress, &ec2.AuthorizeSecurityGroupIngressInput{DryRun: yes, GroupId: &o.Group, IpPermissions: rules}),
			dry("RevokeSecurityGroupIngress", (*ec2.Client).RevokeSecurityGroupIngress, &ec2.RevokeSecurityGroupIngressInput{DryRun: yes, GroupId: &o.Group, IpPermissions: rules}),
			dry("DeleteSecurityGroup", (*ec2.Client).DeleteSecurityGroup, &ec2.DeleteSecurityGroupInput{DryRun: yes, GroupId: &o.Group}))
	}
	if o.Table != "" && o.Instance != "" {
		out = append(out,
			dry("CreateRoute", (*ec2.Client).CreateRoute, &ec2.CreateRouteInput{DryRun: yes, RouteTableId: &o.Table, InstanceId: &o.Instance, DestinationCidrBlock: aws.String(tried)}),
			dry("DeleteRoute", (*ec2.Client).DeleteRoute, &ec2.DeleteRouteInput{DryRun: yes, RouteTableId: &o.Table, DestinationCidrBlock: aws.String(tried)}),
			dry("ModifyInstanceAttribute", (*ec2.Client).ModifyInstanceAttribute, &ec2.ModifyInstanceAttributeInput{DryRun: yes, InstanceId: &o.Instance, SourceDestCheck: off()}))
	}
	return out
}

// ErrNotDry says that a request was carried out though it said that it shall not be.
var ErrNotDry = errors.New("the endpoint does not know the parameter DryRun")

// Try asks EC2 whether the request would be allowed: nil if it would. The error is KindDenied where it would not, ErrNotDry where the
// endpoint does not know dry runs, and another one where nothing is known.
func (c *Client) Try(ctx context.Context, t Trial) error {
	_, _, err := call(ctx, c, "ask whether it may call "+t.Action, "", func(ctx context.Context, p *place) (*struct{}, error) {
		switch err := t.send(ctx, p.ec2); {
		case err == nil:
			return nil, ErrNotDry
		case codeOf(err) == "DryRunOperation":
			return nil, nil //nolint:nilnil // there is nothing to answer
		default:
			return nil, err
		}
	})
	return err
}

// Endpoint is what is known of the endpoint of EC2.
type Endpoint struct {
	// Skew is how much this machine's clock is ahead of its, by the second and by how long an answer takes.
	Skew time.Duration
	// Own is whether it is AWS' own, by the name that it gives itself: an emulator may know dry runs of some requests only, and carry out others.
	Own bool
}

// Endpoint reads little of EC2, to see who answers.
func (c *Client) Endpoint(ctx context.Context) (Endpoint, error) {
	_, s, err := call(ctx, c, "compare clocks", "", func(ctx context.Context, p *place) (*ec2.DescribeAvailabilityZonesOutput, error) {
		return p.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
	})
	if err != nil {
		return Endpoint{}, err
	}
	return Endpoint{Skew: s.skew, Own: s.server == "AmazonEC2"}, nil
}

// Limits reads the account's limits on load balancers, by AWS' names of them: "network-load-balancers", "classic-load-balancers".
func (c *Client) Limits(ctx context.Context) (map[string]int, error) {
	const op = "read the limits on load balancers"
	limits := map[string]int{}
	learn := func(name, most *string) {
		if n, err := strconv.Atoi(aws.ToString(most)); err == nil {
			limits[aws.ToString(name)] = n
		}
	}
	err := everyPage(op, func(marker *string) (*string, error) {
		out, _, err := call(ctx, c, op, "", func(ctx context.Context, p *place) (*elbv2.DescribeAccountLimitsOutput, error) {
			return p.elbv2.DescribeAccountLimits(ctx, &elbv2.DescribeAccountLimitsInput{Marker: marker})
		})
		if err != nil {
			return nil, err
		}
		for _, l := range out.Limits {
			learn(l.Name, l.Max)
		}
		return out.NextMarker, nil
	})
	if err != nil {
		return nil, err
	}
	err = everyPage(op, func(marker *string) (*string, error) {
		out, _, err := call(ctx, c, op, "", func(ctx context.Context, p *place) (*elb.DescribeAccountLimitsOutput, error) {
			return p.elb.DescribeAccountLimits(ctx, &elb.DescribeAccountLimitsInput{Marker: marker})
		})
		if err != nil {
			return nil, err
		}
		for _, l := range out.Limits {
			learn(l.Name, l.Max)
		}
		return out.NextMarker, nil
	})
	return limits, err
}
