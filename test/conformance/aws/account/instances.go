package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

// patience is how long AWS may take to start or stop an instance.
const patience = 5 * time.Minute

func part(prefix string, n int) string {
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		return prefix
	}
	b := p.Addr().As16()
	b[7] = byte(n)
	return netip.PrefixFrom(netip.AddrFrom16(b), 64).String()
}

// MakeInstance implements cloudtest.World.
func (w *World) MakeInstance(ctx context.Context, name string) (cloudtest.Instance, error) {
	subnet := w.subnets[0]
	in := &ec2.RunInstancesInput{
		ImageId: &w.image, InstanceType: types.InstanceTypeT3Micro, MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), SubnetId: subnet.SubnetId,
		SecurityGroupIds: []string{w.group}, TagSpecifications: w.tags(types.ResourceTypeInstance, name),
	}
	if len(subnet.Ipv6CidrBlockAssociationSet) > 0 {
		in.Ipv6AddressCount, in.EnablePrimaryIpv6 = sdk.Int32(1), sdk.Bool(true)
	}
	made, err := w.ec2.RunInstances(ctx, in)
	if err != nil {
		return cloudtest.Instance{}, fmt.Errorf("run an instance: %w", err)
	}
	id := *made.Instances[0].InstanceId
	if err := ec2.NewInstanceRunningWaiter(w.ec2, quick).Wait(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}}, patience); err != nil {
		return cloudtest.Instance{}, err
	}
	i, err := w.instance(ctx, id)
	if err != nil {
		return cloudtest.Instance{}, err
	}
	zone := *i.Placement.AvailabilityZone
	out := cloudtest.Instance{Ref: cloud.InstanceRef{NodeName: *i.PrivateDnsName, ProviderID: "aws:///" + zone + "/" + id}, Zone: zone}
	for _, n := range i.NetworkInterfaces {
		texts := []string{sdk.ToString(n.PrivateIpAddress)}
		for _, six := range n.Ipv6Addresses {
			texts = append(texts, sdk.ToString(six.Ipv6Address))
		}
		for _, text := range texts {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return out, err
			}
			out.Addresses = append(out.Addresses, a)
		}
	}
	return out, nil
}

func quick(o *ec2.InstanceRunningWaiterOptions) { o.MinDelay, o.MaxDelay = time.Second, 5*time.Second }

func (w *World) instance(ctx context.Context, id string) (*types.Instance, error) {
	found, err := w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		return nil, err
	}
	for _, r := range found.Reservations {
		for _, i := range r.Instances {
			return &i, nil
		}
	}
	return nil, fmt.Errorf("instance %s is not there", id)
}

func idOf(providerID string) string { return providerID[strings.LastIndexByte(providerID, '/')+1:] }

// StopInstance implements cloudtest.World.
func (w *World) StopInstance(ctx context.Context, i cloudtest.Instance) error {
	ids := []string{idOf(i.Ref.ProviderID)}
	if _, err := w.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: ids}); err != nil {
		return err
	}
	return ec2.NewInstanceStoppedWaiter(w.ec2, func(o *ec2.InstanceStoppedWaiterOptions) { o.MinDelay, o.MaxDelay = time.Second, 5*time.Second }).
		Wait(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids}, patience)
}

// DeleteInstance implements cloudtest.World.
func (w *World) DeleteInstance(ctx context.Context, i cloudtest.Instance) error {
	ids := []string{idOf(i.Ref.ProviderID)}
	if _, err := w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids}); err != nil {
		if coded("InvalidInstanceID.NotFound", err) {
			return nil
		}
		return err
	}
	return ec2.NewInstanceTerminatedWaiter(w.ec2, func(o *ec2.InstanceTerminatedWaiterOptions) { o.MinDelay, o.MaxDelay = time.Second, 5*time.Second }).
		Wait(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids}, patience)
}

func coded(code string, err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == code
}

// UnknownID implements cloudtest.World.
func (w *World) UnknownID() string { return "aws:///" + w.region + "a/i-0fedcba9876543210" }

// ForeignID implements cloudtest.World.
func (w *World) ForeignID() string { return "openstack:///8a2f1b0e-4b57-4a55-9d52-0f4bb5a1c111" }
