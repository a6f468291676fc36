package api

import (
	"context"
	"net/netip"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Hop is where a new route leads: to an interface if there is one, else to an instance, which has no other interface than one.
type Hop struct{ Instance, Interface string }

// CreateRoute adds a route to a table. Where the table has one to the destination it is KindStale.
func (c *Client) CreateRoute(ctx context.Context, table string, destination netip.Prefix, to Hop) error {
	in := &ec2.CreateRouteInput{RouteTableId: &table}
	in.DestinationCidrBlock, in.DestinationIpv6CidrBlock = byFamily(destination)
	if to.Interface != "" {
		in.NetworkInterfaceId = &to.Interface
	} else {
		in.InstanceId = &to.Instance
	}
	_, _, err := call(ctx, c, "create route to "+destination.String()+" in", table, func(ctx context.Context, p *place) (*ec2.CreateRouteOutput, error) {
		return p.ec2.CreateRoute(ctx, in)
	})
	return err
}

// DeleteRoute removes the route to a destination from a table, wherever it leads. One that is not there is gone.
func (c *Client) DeleteRoute(ctx context.Context, table string, destination netip.Prefix) error {
	in := &ec2.DeleteRouteInput{RouteTableId: &table}
	in.DestinationCidrBlock, in.DestinationIpv6CidrBlock = byFamily(destination)
	_, _, err := call(ctx, c, "delete route to "+destination.String()+" from", table, func(ctx context.Context, p *place) (*ec2.DeleteRouteOutput, error) {
		return p.ec2.DeleteRoute(ctx, in)
	})
	return cloud.IgnoreNotFound(err)
}

// byFamily is a destination as requests have it: one of two parameters.
func byFamily(destination netip.Prefix) (v4, v6 *string) {
	text := destination.Masked().String()
	if destination.Addr().Is4() {
		return &text, nil
	}
	return nil, &text
}

// Forward lets an instance, which has one interface alone, receive and send what is not for or from its own addresses.
func (c *Client) Forward(ctx context.Context, instance string) error {
	_, _, err := call(ctx, c, "turn off the source/destination check of instance", instance, func(ctx context.Context, p *place) (*ec2.ModifyInstanceAttributeOutput, error) {
		return p.ec2.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{InstanceId: &instance, SourceDestCheck: off()})
	})
	return err
}

// ForwardBy is Forward of one interface of an instance that has several.
func (c *Client) ForwardBy(ctx context.Context, networkInterface string) error {
	_, _, err := call(ctx, c, "turn off the source/destination check of network interface", networkInterface, func(ctx context.Context, p *place) (*ec2.ModifyNetworkInterfaceAttributeOutput, error) {
		return p.ec2.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: &networkInterface, SourceDestCheck: off()})
	})
	return err
}

func off() *types.AttributeBooleanValue { return &types.AttributeBooleanValue{Value: aws.Bool(false)} }
