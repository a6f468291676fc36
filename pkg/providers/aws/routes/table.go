package routes

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

// table is a route table.
type table struct {
	id     string
	routes map[netip.Prefix]entry
}

// entry is a route of a table.
type entry struct {
	destination netip.Prefix
	// instance and networkInterface are the target's; other is another target.
	instance, networkInterface, other string
	blackhole                         bool
}

// table reads the cluster's table.
func (r *Routes) table(ctx context.Context) (*table, error) {
	cluster := r.cluster()
	filter := api.Filter("tag-key", tags.Keys(cluster)...)
	if r.tableID != "" {
		filter = api.Filter("route-table-id", r.tableID)
	}
	found, err := r.c.RouteTables(ctx, filter)
	if err != nil {
		return nil, err
	}
	return choose(found, r.tableID, cluster)
}

// choose is the one table that is named, or has the cluster's tag where none is.
func choose(found []types.RouteTable, id, cluster string) (*table, error) {
	const op = "find the route table"
	found = slices.DeleteFunc(slices.Clone(found), func(t types.RouteTable) bool {
		if id != "" {
			return aws.ToString(t.RouteTableId) != id
		}
		return !tags.Has(t.Tags, cluster)
	})
	var ids []string
	for _, t := range found {
		ids = append(ids, aws.ToString(t.RouteTableId))
	}
	slices.Sort(ids)
	switch {
	case len(ids) == 1:
		return tableOf(found[0]), nil
	case len(ids) == 0 && id != "":
		return nil, &cloud.Error{Kind: cloud.KindInvalid, Op: op, Err: cloud.Errorf(cloud.KindInvalid, "there is no route table %s; correct RouteTableID in [Global] of cloud.conf", id)}
	case len(ids) == 0:
		return nil, &cloud.Error{Kind: cloud.KindInvalid, Op: op, Err: cloud.Errorf(cloud.KindInvalid,
			"no route table has the tag %s; tag that of the Nodes' subnets, or set RouteTableID in [Global] of cloud.conf", tags.Key(cluster))}
	}
	return nil, &cloud.Error{Kind: cloud.KindInvalid, Op: op, Err: cloud.Errorf(cloud.KindInvalid,
		"%d route tables have the tag %s (%s); leave it on one alone, or set RouteTableID in [Global] of cloud.conf", len(ids), tags.Key(cluster), strings.Join(ids, ", "))}
}

func tableOf(in types.RouteTable) *table {
	t := &table{id: aws.ToString(in.RouteTableId), routes: map[netip.Prefix]entry{}}
	for _, r := range in.Routes {
		destination, err := netip.ParsePrefix(cmp.Or(aws.ToString(r.DestinationCidrBlock), aws.ToString(r.DestinationIpv6CidrBlock)))
		if err != nil { // a prefix list, whose routes no pod CIDR has
			continue
		}
		t.routes[destination.Masked()] = entry{destination: destination.Masked(), instance: aws.ToString(r.InstanceId), networkInterface: aws.ToString(r.NetworkInterfaceId),
			other: otherTarget(r), blackhole: r.State == types.RouteStateBlackhole}
	}
	return t
}

// otherTarget is the target of a route that leads neither to an instance nor to an interface.
func otherTarget(r types.Route) string {
	for _, id := range []*string{r.GatewayId, r.NatGatewayId, r.TransitGatewayId, r.VpcPeeringConnectionId, r.EgressOnlyInternetGatewayId, r.LocalGatewayId,
		r.CarrierGatewayId, r.CoreNetworkArn} {
		if aws.ToString(id) != "" {
			return *id
		}
	}
	return "a target that is not known"
}

// route is an entry as the contract has it; m is the instance that it leads to, nil where EC2 does not show one. What leads neither
// to an instance that is there nor nowhere has for a Target what it is in AWS.
func (e entry) route(m *machine) cloud.Route {
	out := cloud.Route{Destination: e.destination, ID: cmp.Or(e.networkInterface, e.instance, e.other)}
	switch {
	case m != nil && m.takes(e):
		out.Target, out.Ours = m.target, m.marked
	case e.blackhole:
		out.Blackhole, out.Ours = true, e.instance != "" || e.networkInterface != ""
	default:
		out.Target = cmp.Or(e.instance, e.networkInterface, e.other)
	}
	return out
}
