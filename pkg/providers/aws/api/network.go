package api

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Subnets reads every page of the subnets that pass all filters.
func (c *Client) Subnets(ctx context.Context, filters ...types.Filter) (found []types.Subnet, err error) {
	const op = "list subnets"
	err = everyPage(op, func(token *string) (*string, error) {
		out, _, err := call(ctx, c, op, "", func(ctx context.Context, p *place) (*ec2.DescribeSubnetsOutput, error) {
			return p.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: filters, MaxResults: aws.Int32(pageSize), NextToken: token})
		})
		if err != nil {
			return nil, err
		}
		found = append(found, out.Subnets...)
		return out.NextToken, nil
	})
	return found, err
}

// maxTables is how many route tables a page has at most.
const maxTables = 100

// RouteTables reads every page of the route tables that pass all filters.
func (c *Client) RouteTables(ctx context.Context, filters ...types.Filter) (found []types.RouteTable, err error) {
	const op = "list route tables"
	err = everyPage(op, func(token *string) (*string, error) {
		out, _, err := call(ctx, c, op, "", func(ctx context.Context, p *place) (*ec2.DescribeRouteTablesOutput, error) {
			return p.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{Filters: filters, MaxResults: aws.Int32(maxTables), NextToken: token})
		})
		if err != nil {
			return nil, err
		}
		found = append(found, out.RouteTables...)
		return out.NextToken, nil
	})
	return found, err
}

// InterfaceOf is what the description of a load balancer's network interface begins with; its name follows, or of other than classic ones
// the end of its ARN.
const InterfaceOf = "ELB "

// MaxFiltered is how many values a filter has at most.
const MaxFiltered = 200

// InterfacesIn reads the network interfaces, everybody's, that have one of the security groups.
func (c *Client) InterfacesIn(ctx context.Context, groups []string) (found []types.NetworkInterface, err error) {
	const op = "list network interfaces"
	for some := range slices.Chunk(groups, MaxFiltered) {
		err = everyPage(op, func(token *string) (*string, error) {
			out, _, err := call(ctx, c, op, "", func(ctx context.Context, p *place) (*ec2.DescribeNetworkInterfacesOutput, error) {
				return p.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{Filter("group-id", some...)},
					MaxResults: aws.Int32(pageSize), NextToken: token})
			})
			if err != nil {
				return nil, err
			}
			found = append(found, out.NetworkInterfaces...)
			return out.NextToken, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Zones reads the zones of the region that are open to the account.
func (c *Client) Zones(ctx context.Context) ([]types.AvailabilityZone, error) {
	out, _, err := call(ctx, c, "list zones", "", func(ctx context.Context, p *place) (*ec2.DescribeAvailabilityZonesOutput, error) {
		return p.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
	})
	if err != nil {
		return nil, err
	}
	return out.AvailabilityZones, nil
}

// ZoneIDs reads the IDs of the region's zones, by their names.
func (c *Client) ZoneIDs(ctx context.Context) (map[string]string, error) {
	zones, err := c.Zones(ctx)
	if err != nil {
		return nil, err
	}
	ids := make(map[string]string, len(zones))
	for _, z := range zones {
		ids[aws.ToString(z.ZoneName)] = aws.ToString(z.ZoneId)
	}
	return ids, nil
}
