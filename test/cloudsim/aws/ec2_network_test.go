package aws_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

func TestZonesHaveIDs(t *testing.T) {
	w := newWorld(t, aws.Options{})
	w.region.AddZone(sim.Zone{Name: region + "-ham-1a", ID: "euc1-ham1-az1", Type: "local-zone", Parent: region + "a",
		OptIn: "opted-in"})
	w.region.AddZone(sim.Zone{Name: region + "-waw-1a", ID: "euc1-waw1-az1", Type: "local-zone", Parent: region + "a",
		OptIn: "not-opted-in"})
	list := func(in ec2.DescribeAvailabilityZonesInput) string {
		var out []string
		for _, z := range must(w.ec2.DescribeAvailabilityZones(t.Context(), &in))(t).AvailabilityZones {
			out = append(out, fmt.Sprint(*z.ZoneName, "=", *z.ZoneId, " ", *z.ZoneType))
		}
		return strings.Join(out, ", ")
	}
	if got, want := list(ec2.DescribeAvailabilityZonesInput{}), ""+
		"eu-central-1a=euc1-az2 availability-zone, eu-central-1b=euc1-az3 availability-zone, "+
		"eu-central-1c=euc1-az1 availability-zone, eu-central-1-ham-1a=euc1-ham1-az1 local-zone"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := list(ec2.DescribeAvailabilityZonesInput{ZoneNames: []string{region +
		"b"}}); got != "eu-central-1b=euc1-az3 availability-zone" {
		t.Errorf("by name: %s", got)
	}
	if got := list(ec2.DescribeAvailabilityZonesInput{AllAvailabilityZones: sdk.Bool(true),
		Filters: []types.Filter{filter("opt-in-status", "not-opted-in")}}); got != "eu-central-1-waw-1a=euc1-waw1-az1 local-zone" {
		t.Errorf("all: %s", got)
	}
	_, err := w.ec2.DescribeAvailabilityZones(t.Context(),
		&ec2.DescribeAvailabilityZonesInput{ZoneNames: []string{"eu-central-1z"}})
	wantError(t, err, "InvalidParameterValue", "Invalid availability zone: [eu-central-1z]")
	for name, want := range map[string]string{"us-east-1": "use1", "ap-southeast-2": "apse2", "us-gov-west-1": "usgw1",
		"cn-northwest-1": "cnnw1", "ca-central-1": "cac1"} {
		if got := w.EC2(account, name).Zones()[2].ID; got != want+"-az1" {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestInterfacesOfInstancesAndOthers(t *testing.T) {
	w := newWorld(t, aws.Options{})
	i := w.region.AddInstance(sim.Instance{})
	subnet := must(w.region.Subnets(nil))(t)[0]
	fargate := w.region.AddInterface(sim.NetworkInterface{SubnetID: subnet.ID, PrivateIPs: []string{"172.31.0.200"}, Managed: true,
		RequesterID: "578734482556", Attachment: "attached"})
	w.region.AddInterface(sim.NetworkInterface{InstanceID: i.ID, DeviceIndex: 1, IPv6Prefixes: []string{"2001:db8::/80"}})
	list := func(filters ...types.Filter) string {
		var out []string
		for p := ec2.NewDescribeNetworkInterfacesPaginator(w.ec2, &ec2.DescribeNetworkInterfacesInput{Filters: filters,
			MaxResults: sdk.Int32(5)}); p.HasMorePages(); {
			for _, n := range must(p.NextPage(t.Context()))(t).NetworkInterfaces {
				out = append(out, *n.NetworkInterfaceId)
			}
		}
		return strings.Join(out, " ")
	}
	if got := list(filter("private-ip-address", "172.31.0.200"), filter("attachment.status", "attached"),
		filter("vpc-id", subnet.VPCID)); got != fargate.ID {
		t.Errorf("by address: %s", got)
	}
	if got, want := list(filter("attachment.instance-id",
		i.ID)), must(w.region.Instances([]string{i.ID}))(t)[0].Interfaces; got != want[0].ID+" "+want[1].ID {
		t.Errorf("by instance: %s", got)
	}
	n := must(w.ec2.DescribeNetworkInterfaces(t.Context(),
		&ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{fargate.ID}}))(t).NetworkInterfaces[0]
	if got := fmt.Sprint(n.Status, *n.RequesterManaged, *n.PrivateDnsName,
		n.Attachment); got != "in-usetrue"+"ip-172-31-0-200.eu-central-1.compute.internal<nil>" {
		t.Errorf("shown as %s", got)
	}
	_, err := w.ec2.DescribeNetworkInterfaces(t.Context(),
		&ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{"eni-0123456789abcdef0"}})
	wantError(t, err, "InvalidNetworkInterfaceID.NotFound", "The networkInterface ID 'eni-0123456789abcdef0' does not exist")
}

func TestSourceDestCheck(t *testing.T) {
	w := newWorld(t, aws.Options{})
	i := w.region.AddInstance(sim.Instance{})
	off := &types.AttributeBooleanValue{Value: sdk.Bool(false)}
	must(w.ec2.ModifyInstanceAttribute(t.Context(), &ec2.ModifyInstanceAttributeInput{InstanceId: &i.ID, SourceDestCheck: off}))(t)
	out := must(w.ec2.DescribeInstances(t.Context(),
		&ec2.DescribeInstancesInput{Filters: []types.Filter{filter("source-dest-check", "false")}}))(t)
	if len(out.Reservations) != 1 || *out.Reservations[0].Instances[0].SourceDestCheck ||
		*out.Reservations[0].Instances[0].NetworkInterfaces[0].SourceDestCheck {
		t.Errorf("%+v", out.Reservations)
	}
	two := w.region.AddInstance(sim.Instance{Interfaces: []*sim.NetworkInterface{{}, {DeviceIndex: 1}}})
	_, err := w.ec2.ModifyInstanceAttribute(t.Context(), &ec2.ModifyInstanceAttributeInput{InstanceId: &two.ID,
		SourceDestCheck: off})
	wantError(t, err, "InvalidInstanceID", "There are multiple interfaces attached to instance '"+two.ID+
		"'. Please specify an interface ID for the operation instead.")
	must(w.ec2.ModifyNetworkInterfaceAttribute(t.Context(),
		&ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: &two.Interfaces[0].ID, SourceDestCheck: off}))(t)
	if got := must(w.region.Instances([]string{two.ID}))(t)[0]; !got.Interfaces[0].NoSourceDestCheck ||
		got.Interfaces[1].NoSourceDestCheck {
		t.Errorf("%+v", got.Interfaces)
	}
	_, err = w.ec2.ModifyInstanceAttribute(t.Context(),
		&ec2.ModifyInstanceAttributeInput{InstanceId: sdk.String("i-0123456789abcdef0"), SourceDestCheck: off})
	wantError(t, err, "InvalidInstanceID.NotFound", "")
}

func TestVPCsSubnetsAndAddresses(t *testing.T) {
	w := newWorld(t, aws.Options{})
	vpc := w.region.AddVPC(sim.VPC{CIDR: "10.0.0.0/16", IPv6CIDR: "2001:db8::/56", Tags: map[string]string{"Name": "mine"}})
	subnet := w.region.AddSubnet(sim.Subnet{VPCID: vpc.ID, CIDR: "10.0.1.0/24", IPv6CIDR: "2001:db8:0:1::/64",
		Tags: map[string]string{"kubernetes.io/role/elb": ""}})
	i := w.region.AddInstance(sim.Instance{SubnetID: subnet.ID})
	vpcs := must(w.ec2.DescribeVpcs(t.Context(),
		&ec2.DescribeVpcsInput{Filters: []types.Filter{filter("tag:Name", "mine")}}))(t).Vpcs
	if len(vpcs) != 1 || *vpcs[0].VpcId != vpc.ID || *vpcs[0].Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock != "2001:db8::/56" ||
		*vpcs[0].IsDefault {
		t.Errorf("%+v", vpcs)
	}
	subnets := must(w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: []types.Filter{filter("vpc-id", vpc.ID),
		filter("tag-key", "kubernetes.io/role/elb")}}))(t).Subnets
	if len(subnets) != 1 || *subnets[0].SubnetId != subnet.ID || *subnets[0].AvailableIpAddressCount != 250 ||
		*subnets[0].Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock != "2001:db8:0:1::/64" {
		t.Errorf("%+v", subnets)
	}
	_, err := w.ec2.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{VpcIds: []string{"vpc-0123456789abcdef0"}})
	wantError(t, err, "InvalidVpcID.NotFound", "The vpc ID 'vpc-0123456789abcdef0' does not exist")
	_, err = w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet.ID,
		"subnet-0123456789abcdef0"}})
	wantError(t, err, "InvalidSubnetID.NotFound", "The subnet ID 'subnet-0123456789abcdef0' does not exist")

	ip := w.region.AddAddress(sim.Address{PublicIP: "203.0.113.50", InterfaceID: i.Interfaces[0].ID})
	w.region.AddAddress(sim.Address{PublicIP: "203.0.113.51"})
	addresses := must(w.ec2.DescribeAddresses(t.Context(),
		&ec2.DescribeAddressesInput{AllocationIds: []string{ip.ID}}))(t).Addresses
	if len(addresses) != 1 || *addresses[0].PublicIp != "203.0.113.50" || *addresses[0].InstanceId != i.ID ||
		*addresses[0].PrivateIpAddress != i.PrivateIP {
		t.Errorf("%+v", addresses)
	}
	_, err = w.ec2.DescribeAddresses(t.Context(), &ec2.DescribeAddressesInput{PublicIps: []string{"203.0.113.99"}})
	wantError(t, err, "InvalidAddress.NotFound", "Address '203.0.113.99' not found.")
	_, err = w.ec2.DescribeAddresses(t.Context(),
		&ec2.DescribeAddressesInput{AllocationIds: []string{"eipalloc-0123456789abcdef0"}})
	wantError(t, err, "InvalidAllocationID.NotFound", "")
}

func TestRoutes(t *testing.T) {
	w := newWorld(t, aws.Options{EC2: sim.Options{RoutesPerTable: 3}})
	vpc := w.region.AddVPC(sim.VPC{Tags: map[string]string{"a": "b"}})
	subnet := w.region.AddSubnet(sim.Subnet{VPCID: vpc.ID, CIDR: "10.0.0.0/24"})
	table := w.region.AddRouteTable(sim.RouteTable{VPCID: vpc.ID, Associations: []sim.Association{{SubnetID: subnet.ID}},
		Tags: map[string]string{"kubernetes.io/cluster/one": "owned"}})
	one, two := w.region.AddInstance(sim.Instance{SubnetID: subnet.ID}), w.region.AddInstance(sim.Instance{SubnetID: subnet.ID})
	show := func() string {
		out := must(w.ec2.DescribeRouteTables(t.Context(), &ec2.DescribeRouteTablesInput{Filters: []types.Filter{filter("tag-key",
			"kubernetes.io/cluster/one")}}))(t)
		var text []string
		for _, r := range out.RouteTables[0].Routes {
			text = append(text, strings.TrimSpace(fmt.Sprint(sdk.ToString(r.DestinationCidrBlock),
				sdk.ToString(r.DestinationIpv6CidrBlock), " ", sdk.ToString(r.GatewayId), sdk.ToString(r.InstanceId), " ", r.State)))
		}
		return strings.Join(text, ", ")
	}
	create := func(cidr string, to *string) error {
		_, err := w.ec2.CreateRoute(t.Context(), &ec2.CreateRouteInput{RouteTableId: &table.ID, DestinationCidrBlock: &cidr,
			InstanceId: to})
		return err
	}
	if err := create("100.64.0.9/24", &one.ID); err != nil {
		t.Fatal(err)
	}
	wantError(t, create("100.64.0.0/24", &two.ID), "RouteAlreadyExists", "The route identified by 100.64.0.0/24 already exists.")
	wantError(t, create("100.64.1.0/24", sdk.String("i-0123456789abcdef0")), "InvalidInstanceID.NotFound", "")
	wantError(t, create("fd00::/64", &one.ID), "InvalidParameterValue", "")
	must(w.ec2.CreateRoute(t.Context(), &ec2.CreateRouteInput{RouteTableId: &table.ID,
		DestinationIpv6CidrBlock: sdk.String("fd00::/64"), NetworkInterfaceId: &two.Interfaces[0].ID}))(t)
	if got, want := show(), "10.0.0.0/16 local active, 100.64.0.0/24 "+one.ID+" active, fd00::/64 "+two.ID+" active"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	must(w.ec2.ReplaceRoute(t.Context(), &ec2.ReplaceRouteInput{RouteTableId: &table.ID,
		DestinationCidrBlock: sdk.String("100.64.0.0/24"), InstanceId: &two.ID}))(t)
	_, err := w.ec2.ReplaceRoute(t.Context(), &ec2.ReplaceRouteInput{RouteTableId: &table.ID,
		DestinationCidrBlock: sdk.String("100.64.7.0/24"), InstanceId: &two.ID})
	wantError(t, err, "InvalidParameterValue",
		"There is no route defined for '100.64.7.0/24' in the route table. Use CreateRoute instead.")
	w.region.Terminate(two.ID)
	if got := show(); !strings.Contains(got, "100.64.0.0/24 "+two.ID+" blackhole") {
		t.Errorf("after the termination: %s", got)
	}
	if err := create("100.64.2.0/24", &one.ID); err != nil {
		t.Fatal(err)
	}
	wantError(t, create("100.64.3.0/24", &one.ID), "RouteLimitExceeded", "")
	must(w.ec2.DeleteRoute(t.Context(), &ec2.DeleteRouteInput{RouteTableId: &table.ID,
		DestinationCidrBlock: sdk.String("100.64.0.0/24")}))(t)
	_, err = w.ec2.DeleteRoute(t.Context(), &ec2.DeleteRouteInput{RouteTableId: &table.ID,
		DestinationCidrBlock: sdk.String("100.64.0.0/24")})
	wantError(t, err, "InvalidRoute.NotFound", "no route with destination-cidr-block 100.64.0.0/24 in route table "+table.ID)
	three := w.region.AddInstance(sim.Instance{SubnetID: subnet.ID, Interfaces: []*sim.NetworkInterface{{}, {DeviceIndex: 1}}})
	wantError(t, create("100.64.5.0/24", &three.ID), "InvalidInstanceID", "")
	elsewhere := w.region.AddInstance(sim.Instance{})
	wantError(t, create("100.64.5.0/24", &elsewhere.ID), "InvalidParameterValue",
		"route table "+table.ID+" and network interface "+elsewhere.Interfaces[0].ID+" belong to different networks")
	_, err = w.ec2.DescribeRouteTables(t.Context(),
		&ec2.DescribeRouteTablesInput{RouteTableIds: []string{"rtb-0123456789abcdef0"}})
	wantError(t, err, "InvalidRouteTableID.NotFound", "The routeTable ID 'rtb-0123456789abcdef0' does not exist")
	public := must(w.ec2.DescribeRouteTables(t.Context(),
		&ec2.DescribeRouteTablesInput{Filters: []types.Filter{filter("association.main", "true"),
			filter("vpc-id", w.region.DefaultVPC().ID)}}))(t)
	if len(public.RouteTables) != 1 || !strings.HasPrefix(*public.RouteTables[0].Routes[1].GatewayId, "igw-") {
		t.Errorf("%+v", public.RouteTables)
	}
}

func TestVolumes(t *testing.T) {
	w := newWorld(t, aws.Options{})
	var ids []string
	for range 7 {
		ids = append(ids, w.region.AddVolume(sim.Volume{Zone: region + "c"}).ID)
	}
	out := must(w.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: ids[:2]}))(t)
	if len(out.Volumes) != 2 || *out.Volumes[0].AvailabilityZone != region+"c" ||
		out.Volumes[0].State != types.VolumeStateAvailable {
		t.Errorf("%+v", out.Volumes)
	}
	n := 0
	for p := ec2.NewDescribeVolumesPaginator(w.ec2, &ec2.DescribeVolumesInput{MaxResults: sdk.Int32(5)}); p.HasMorePages(); {
		n += len(must(p.NextPage(t.Context()))(t).Volumes)
	}
	if n != 7 {
		t.Errorf("%d volumes in pages", n)
	}
	_, err := w.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{ids[0], "vol-0123456789abcdef0"}})
	wantError(t, err, "InvalidVolume.NotFound", "The volume 'vol-0123456789abcdef0' does not exist.")
	_, err = w.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{"disk"}})
	wantError(t, err, "InvalidParameterValue", "Value (disk) for parameter volumeId is invalid. Expected: 'vol-...'.")
	_, err = w.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: ids, MaxResults: sdk.Int32(50)})
	wantError(t, err, "InvalidParameterCombination", "The parameter volumeSet cannot be used with the parameter maxResults")
	w.region.RemoveVolume(ids[0])
	waiter := ec2.NewVolumeDeletedWaiter(w.ec2, func(o *ec2.VolumeDeletedWaiterOptions) {
		o.MinDelay, o.MaxDelay = 10*time.Millisecond, 20*time.Millisecond
	})
	if err := waiter.Wait(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: ids[:1]}, 20*time.Second); err != nil {
		t.Error(err)
	}
}
