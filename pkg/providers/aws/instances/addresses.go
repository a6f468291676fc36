package instances

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
)

// nodeAddresses are a Node's addresses in their order, which is the existing manager's, because Nodes keep their first address
// for life. Family by family:
//
//   - IPv4: all private addresses of the interfaces in use, the public one, the private DNS name as InternalDNS and Hostname, and
//     the public one.
//   - IPv6: the first address of each interface in use. It has no names.
//
// Interfaces are sorted by network card and device, so that the primary one is the first. Pure.
func nodeAddresses(i *types.Instance, families []string) []corev1.NodeAddress {
	var b addressBuilder
	interfaces := inOrder(i.NetworkInterfaces)
	for _, family := range families {
		if family == config.IPv6 {
			for _, n := range interfaces {
				if len(n.Ipv6Addresses) > 0 {
					b.ip(corev1.NodeInternalIP, n.Ipv6Addresses[0].Ipv6Address)
				}
			}
			continue
		}
		for _, n := range interfaces {
			for _, a := range n.PrivateIpAddresses {
				b.ip(corev1.NodeInternalIP, a.PrivateIpAddress)
			}
		}
		b.ip(corev1.NodeExternalIP, i.PublicIpAddress)
		b.name(corev1.NodeInternalDNS, i.PrivateDnsName)
		b.name(corev1.NodeHostName, i.PrivateDnsName)
		b.name(corev1.NodeExternalDNS, i.PublicDnsName)
	}
	return b.list
}

// inOrder are the interfaces in use, the primary one first; those that are not attached come last.
func inOrder(all []types.InstanceNetworkInterface) []types.InstanceNetworkInterface {
	used := slices.DeleteFunc(slices.Clone(all), func(n types.InstanceNetworkInterface) bool { return n.Status != types.NetworkInterfaceStatusInUse })
	slices.SortStableFunc(used, func(a, b types.InstanceNetworkInterface) int {
		switch x, y := a.Attachment, b.Attachment; {
		case x == nil && y == nil:
			return 0
		case x == nil:
			return 1
		case y == nil:
			return -1
		default:
			return cmp.Or(cmp.Compare(aws.ToInt32(x.NetworkCardIndex), aws.ToInt32(y.NetworkCardIndex)), cmp.Compare(aws.ToInt32(x.DeviceIndex), aws.ToInt32(y.DeviceIndex)))
		}
	})
	return used
}

type addressBuilder struct{ list []corev1.NodeAddress }

// ip appends an address unless it is none.
func (b *addressBuilder) ip(typ corev1.NodeAddressType, address *string) {
	if ip, err := netip.ParseAddr(aws.ToString(address)); err == nil {
		b.add(corev1.NodeAddress{Type: typ, Address: ip.String()})
	}
}

// name appends a name unless it is empty.
func (b *addressBuilder) name(typ corev1.NodeAddressType, name *string) {
	if aws.ToString(name) != "" {
		b.add(corev1.NodeAddress{Type: typ, Address: *name})
	}
}

func (b *addressBuilder) add(a corev1.NodeAddress) {
	if !slices.Contains(b.list, a) {
		b.list = append(b.list, a)
	}
}
