package account

import (
	"context"
	"net/netip"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// AddRoute implements cloudtest.World.
func (w *World) AddRoute(ctx context.Context, r cloud.Route) error {
	in := &ec2.CreateRouteInput{RouteTableId: &w.table, InstanceId: sdk.String(idOf(r.Target))}
	if text := r.Destination.String(); r.Destination.Addr().Is6() {
		in.DestinationIpv6CidrBlock = &text
	} else {
		in.DestinationCidrBlock = &text
	}
	_, err := w.ec2.CreateRoute(ctx, in)
	return err
}

// RemoveRoute implements cloudtest.World.
func (w *World) RemoveRoute(ctx context.Context, r cloud.Route) error {
	in := &ec2.DeleteRouteInput{RouteTableId: &w.table}
	if text := r.Destination.String(); r.Destination.Addr().Is6() {
		in.DestinationIpv6CidrBlock = &text
	} else {
		in.DestinationCidrBlock = &text
	}
	_, err := w.ec2.DeleteRoute(ctx, in)
	if coded("InvalidRoute.NotFound", err) {
		return nil
	}
	return err
}

// Routes implements cloudtest.World.
func (w *World) Routes(ctx context.Context) ([]cloud.Route, error) {
	tables, err := w.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{RouteTableIds: []string{w.table}})
	if err != nil {
		return nil, err
	}
	var out []cloud.Route
	for _, r := range tables.RouteTables[0].Routes {
		if r.InstanceId == nil {
			continue
		}
		to := sdk.ToString(r.DestinationCidrBlock)
		if to == "" {
			to = sdk.ToString(r.DestinationIpv6CidrBlock)
		}
		destination, err := netip.ParsePrefix(to)
		if err != nil {
			return nil, err
		}
		route := cloud.Route{Destination: destination, Blackhole: r.State == types.RouteStateBlackhole}
		if !route.Blackhole {
			i, err := w.instance(ctx, *r.InstanceId)
			if err != nil {
				return nil, err
			}
			route.Target = "aws:///" + *i.Placement.AvailabilityZone + "/" + *r.InstanceId
		}
		out = append(out, route)
	}
	return out, nil
}

// MakeVolume implements cloudtest.World.
func (w *World) MakeVolume(ctx context.Context) (*corev1.PersistentVolume, string, error) {
	zone := w.subnets[0].AvailabilityZone
	v, err := w.ec2.CreateVolume(ctx, &ec2.CreateVolumeInput{
		AvailabilityZone: zone, Size: sdk.Int32(1), VolumeType: types.VolumeTypeGp3, TagSpecifications: w.tags(types.ResourceTypeVolume, w.cluster),
	})
	if err != nil {
		return nil, "", err
	}
	pv := &corev1.PersistentVolume{}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: *v.VolumeId}
	return pv, *zone, nil
}

// DeleteVolume implements cloudtest.World.
func (w *World) DeleteVolume(ctx context.Context, pv *corev1.PersistentVolume) error {
	_, err := w.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &pv.Spec.CSI.VolumeHandle})
	if coded("InvalidVolume.NotFound", err) {
		return nil
	}
	return err
}

// Throttle implements cloudtest.World.
func (w *World) Throttle() (undo func(), reason string) {
	return nil, "an account cannot be made to refuse requests as too many"
}
