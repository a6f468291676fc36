package instances

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func eni(status types.NetworkInterfaceStatus, at *types.InstanceNetworkInterfaceAttachment, ipv6 []string, ipv4 ...string) types.InstanceNetworkInterface {
	out := types.InstanceNetworkInterface{Status: status, Attachment: at}
	for _, a := range ipv4 {
		out.PrivateIpAddresses = append(out.PrivateIpAddresses, types.InstancePrivateIpAddress{PrivateIpAddress: &a})
	}
	for _, a := range ipv6 {
		out.Ipv6Addresses = append(out.Ipv6Addresses, types.InstanceIpv6Address{Ipv6Address: &a})
	}
	return out
}

func at(card, device int32) *types.InstanceNetworkInterfaceAttachment {
	return &types.InstanceNetworkInterfaceAttachment{NetworkCardIndex: &card, DeviceIndex: &device}
}

// TestComplaint890AddressesDoNotFlip: whatever the order in which EC2 lists the interfaces that network plugins attach, the primary
// one's addresses come first, and the list is the same.
func TestComplaint890AddressesDoNotFlip(t *testing.T) {
	const used = types.NetworkInterfaceStatusInUse
	plugged := eni(used, at(0, 1), []string{"2001:db8::2"}, "10.0.0.1", "10.0.0.2") // lower than the primary one's
	primary, card := eni(used, at(0, 0), []string{"2001:db8::9"}, "10.0.9.9"), eni(used, at(1, 0), nil, "10.0.0.3")
	families := []string{"ipv4", "ipv6"}
	want := nodeAddresses(&types.Instance{NetworkInterfaces: []types.InstanceNetworkInterface{primary, plugged, card}}, families)
	if len(want) != 6 || want[0].Address != "10.0.9.9" {
		t.Fatalf("%v", want)
	}
	for _, order := range [][]types.InstanceNetworkInterface{{primary, card, plugged}, {plugged, primary, card}, {plugged, card, primary}, {card, primary, plugged}, {card, plugged, primary}} {
		if diff := cmp.Diff(want, nodeAddresses(&types.Instance{NetworkInterfaces: order}, families)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestNodeAddresses(t *testing.T) {
	const used = types.NetworkInterfaceStatusInUse
	several := []types.InstanceNetworkInterface{
		eni(used, nil, []string{"2001:db8::9"}, "10.0.0.9"),
		eni(used, at(1, 1), nil, "10.0.1.1"),
		eni(used, at(0, 2), []string{"2001:db8::2", "2001:db8::3"}, "10.0.0.2"),
		eni(types.NetworkInterfaceStatusDetaching, at(0, 1), []string{"2001:db8::8"}, "10.0.0.8"),
		eni(used, &types.InstanceNetworkInterfaceAttachment{DeviceIndex: aws.Int32(0)}, []string{"2001:DB8:0::1"}, "10.0.0.1", "10.0.0.11", "10.0.0.1", "", "nonsense"),
	}
	ip := func(addresses ...string) []corev1.NodeAddress {
		var out []corev1.NodeAddress
		for _, a := range addresses {
			out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		return out
	}
	v4, v6 := ip("10.0.0.1", "10.0.0.11", "10.0.0.2", "10.0.1.1", "10.0.0.9"), ip("2001:db8::1", "2001:db8::2", "2001:db8::9")
	names := []corev1.NodeAddress{
		{Type: corev1.NodeExternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeInternalDNS, Address: "private"},
		{Type: corev1.NodeHostName, Address: "private"}, {Type: corev1.NodeExternalDNS, Address: "public"},
	}
	for name, tt := range map[string]struct {
		instance types.Instance
		families []string
		want     []corev1.NodeAddress
	}{
		"nothing":    {types.Instance{}, []string{"ipv4", "ipv6"}, nil},
		"interfaces": {types.Instance{NetworkInterfaces: several}, []string{"ipv4"}, v4},
		"IPv6":       {types.Instance{NetworkInterfaces: several, PrivateDnsName: aws.String("private"), PublicIpAddress: aws.String("192.0.2.1")}, []string{"ipv6"}, v6},
		"IPv4 first": {types.Instance{NetworkInterfaces: several}, []string{"ipv4", "ipv6"}, append(append([]corev1.NodeAddress{}, v4...), v6...)},
		"IPv6 first": {types.Instance{NetworkInterfaces: several}, []string{"ipv6", "ipv4"}, append(append([]corev1.NodeAddress{}, v6...), v4...)},
		"names":      {types.Instance{PublicIpAddress: aws.String("192.0.2.1"), PrivateDnsName: aws.String("private"), PublicDnsName: aws.String("public")}, []string{"ipv4"}, names},
		"no names":   {types.Instance{PublicIpAddress: aws.String(""), PrivateDnsName: aws.String(""), PublicDnsName: aws.String("")}, []string{"ipv4"}, nil},
	} {
		before := len(tt.instance.NetworkInterfaces)
		if diff := cmp.Diff(tt.want, nodeAddresses(&tt.instance, tt.families)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if len(tt.instance.NetworkInterfaces) != before || before > 0 && aws.ToString(tt.instance.NetworkInterfaces[0].PrivateIpAddresses[0].PrivateIpAddress) != "10.0.0.9" {
			t.Errorf("%s: the instance was changed", name)
		}
	}
}
