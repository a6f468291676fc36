package account

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"github.com/isthmus-cloud/isthmus/test/conformance/aws"
)

// inside is the VPC's range.
var inside = netip.MustParsePrefix("10.97.0.0/16")

// World is a VPC with two public dual-stack subnets.
type World struct {
	aws.Kind
	region, cluster string
	dir             string // of cloud.conf

	ec2   *ec2.Client
	elb   *elb.Client
	elbv2 *elbv2.Client

	vpc, table, gateway, group, image string
	subnets                           []types.Subnet
}

// New makes the World in the environment's account and region. Close takes it down, also after an error.
func New(ctx context.Context, kind aws.Kind, dir string) (*World, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		return nil, errors.New("no region of AWS: set AWS_REGION and credentials, and AWS_ENDPOINT_URL for an emulator")
	}
	b := make([]byte, 4)
	if _, err := rand.Read(b); err != nil {
		return nil, err
	}
	w := &World{
		Kind:   kind,
		region: cfg.Region, cluster: "isthmus-" + hex.EncodeToString(b), dir: dir,
		ec2: ec2.NewFromConfig(cfg), elb: elb.NewFromConfig(cfg), elbv2: elbv2.NewFromConfig(cfg),
	}
	return w, w.furnish(ctx)
}

func (w *World) tags(kind types.ResourceType, name string) []types.TagSpecification {
	return []types.TagSpecification{{ResourceType: kind, Tags: []types.Tag{
		{Key: sdk.String("Name"), Value: &name},
		{Key: sdk.String("kubernetes.io/cluster/" + w.cluster), Value: sdk.String("owned")},
	}}}
}

// furnish makes what every check needs.
func (w *World) furnish(ctx context.Context) error {
	for _, step := range []func(context.Context) error{w.makeNetwork, w.makeSubnets, w.makeGroup, w.findImage} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) makeNetwork(ctx context.Context) error {
	v, err := w.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{
		CidrBlock: sdk.String(inside.String()), AmazonProvidedIpv6CidrBlock: sdk.Bool(true), TagSpecifications: w.tags(types.ResourceTypeVpc, w.cluster),
	})
	if err != nil {
		return fmt.Errorf("make a VPC: %w", err)
	}
	w.vpc = *v.Vpc.VpcId
	g, err := w.ec2.CreateInternetGateway(ctx, &ec2.CreateInternetGatewayInput{TagSpecifications: w.tags(types.ResourceTypeInternetGateway, w.cluster)})
	if err != nil {
		return fmt.Errorf("make an internet gateway: %w", err)
	}
	w.gateway = *g.InternetGateway.InternetGatewayId
	if _, err := w.ec2.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: &w.gateway, VpcId: &w.vpc}); err != nil {
		return fmt.Errorf("attach internet gateway %s to VPC %s: %w", w.gateway, w.vpc, err)
	}
	tables, err := w.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{Filters: []types.Filter{
		filter("vpc-id", w.vpc), filter("association.main", "true"),
	}})
	if err != nil || len(tables.RouteTables) != 1 {
		return fmt.Errorf("find the main route table of VPC %s: %w", w.vpc, errors.Join(err, errors.New("want one")))
	}
	w.table = *tables.RouteTables[0].RouteTableId
	if err := w.tag(ctx, w.table); err != nil {
		return err
	}
	if _, err = w.ec2.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: &w.table, DestinationCidrBlock: sdk.String("0.0.0.0/0"), GatewayId: &w.gateway}); err != nil {
		return err
	}
	_, err = w.ec2.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: &w.table, DestinationIpv6CidrBlock: sdk.String("::/0"), GatewayId: &w.gateway})
	return err
}

func (w *World) tag(ctx context.Context, id string) error {
	_, err := w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{
		{Key: sdk.String("kubernetes.io/cluster/" + w.cluster), Value: sdk.String("owned")},
	}})
	return err
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

func (w *World) makeSubnets(ctx context.Context) error {
	zones, err := w.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{Filters: []types.Filter{filter("zone-type", "availability-zone")}})
	if err != nil || len(zones.AvailabilityZones) < 2 {
		return fmt.Errorf("find two zones in %s: %w", w.region, errors.Join(err, errors.New("want two")))
	}
	vpcs, err := w.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{w.vpc}})
	if err != nil {
		return err
	}
	var six string
	for _, a := range vpcs.Vpcs[0].Ipv6CidrBlockAssociationSet {
		six = *a.Ipv6CidrBlock
	}
	for n := range 2 {
		in := &ec2.CreateSubnetInput{
			VpcId: &w.vpc, AvailabilityZone: zones.AvailabilityZones[n].ZoneName, CidrBlock: sdk.String(fmt.Sprintf("10.97.%d.0/24", n)),
			TagSpecifications: w.tags(types.ResourceTypeSubnet, fmt.Sprintf("%s-%d", w.cluster, n)),
		}
		if six != "" {
			in.Ipv6CidrBlock = sdk.String(part(six, n))
		}
		s, err := w.ec2.CreateSubnet(ctx, in)
		if err != nil {
			return fmt.Errorf("make a subnet of VPC %s: %w", w.vpc, err)
		}
		w.subnets = append(w.subnets, *s.Subnet)
	}
	return nil
}

func (w *World) makeGroup(ctx context.Context) error {
	g, err := w.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		GroupName: sdk.String(w.cluster + "-nodes"), Description: sdk.String("nodes"), VpcId: &w.vpc,
		TagSpecifications: w.tags(types.ResourceTypeSecurityGroup, w.cluster+"-nodes"),
	})
	if err != nil {
		return fmt.Errorf("make a security group: %w", err)
	}
	w.group = *g.GroupId
	return nil
}

func (w *World) findImage(ctx context.Context) error {
	images, err := w.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: []string{"amazon"}, Filters: []types.Filter{
		filter("architecture", "x86_64"), filter("virtualization-type", "hvm"), filter("name", "al2023-ami-minimal-*", "amzn2-ami-minimal-*", "amzn-ami-hvm-*"),
	}})
	if err != nil || len(images.Images) == 0 {
		return fmt.Errorf("find an image: %w", errors.Join(err, errors.New("want one")))
	}
	w.image = *images.Images[0].ImageId
	return nil
}

// Close deletes all that the World has made.
func (w *World) Close(ctx context.Context) error {
	var errs []error
	do := func(what string, f func() error) {
		for ctx.Err() == nil {
			err := f()
			if err == nil {
				return
			}
			select {
			case <-ctx.Done():
				errs = append(errs, fmt.Errorf("%s stays: %w", what, err))
			case <-time.After(time.Second): // AWS takes a while to see that something is not in use any more
			}
		}
	}
	if w.group != "" {
		do("security group "+w.group, func() error {
			_, err := w.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &w.group})
			return err
		})
	}
	for _, s := range w.subnets {
		do("subnet "+*s.SubnetId, func() error {
			_, err := w.ec2.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: s.SubnetId})
			return err
		})
	}
	if w.gateway != "" {
		do("internet gateway "+w.gateway, func() error {
			_, _ = w.ec2.DetachInternetGateway(ctx, &ec2.DetachInternetGatewayInput{InternetGatewayId: &w.gateway, VpcId: &w.vpc})
			_, err := w.ec2.DeleteInternetGateway(ctx, &ec2.DeleteInternetGatewayInput{InternetGatewayId: &w.gateway})
			return err
		})
	}
	if w.vpc != "" {
		do("VPC "+w.vpc, func() error {
			_, err := w.ec2.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: &w.vpc})
			return err
		})
	}
	return errors.Join(errs...)
}
