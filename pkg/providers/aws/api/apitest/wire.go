package apitest

import (
	"encoding/xml"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// The answers as EC2 writes them, as far as the provider reads them.
type (
	instancesReply struct {
		XMLName      xml.Name         `xml:"DescribeInstancesResponse"`
		Reservations []reservationXML `xml:"reservationSet>item"`
		Next         string           `xml:"nextToken,omitempty"`
	}
	reservationXML struct {
		Owner     string        `xml:"ownerId"`
		Instances []instanceXML `xml:"instancesSet>item"`
	}
	instanceXML struct {
		ID         string   `xml:"instanceId"`
		State      string   `xml:"instanceState>name,omitempty"`
		Type       string   `xml:"instanceType"`
		Zone       string   `xml:"placement>availabilityZone"`
		ZoneID     string   `xml:"placement>availabilityZoneId,omitempty"`
		PrivateDNS string   `xml:"privateDnsName"`
		PublicDNS  string   `xml:"dnsName"`
		PublicIP   string   `xml:"ipAddress,omitempty"`
		Launched   string   `xml:"launchTime,omitempty"`
		Interfaces []eniXML `xml:"networkInterfaceSet>item"`
		Tags       []tagXML `xml:"tagSet>item"`
	}
	eniXML struct {
		Status     string         `xml:"status"`
		Attachment *attachmentXML `xml:"attachment"`
		IPv4       []ip4XML       `xml:"privateIpAddressesSet>item"`
		IPv6       []ip6XML       `xml:"ipv6AddressesSet>item"`
	}
	attachmentXML struct {
		Device int32  `xml:"deviceIndex"`
		Card   *int32 `xml:"networkCardIndex"`
	}
	ip4XML struct {
		Address string `xml:"privateIpAddress"`
	}
	ip6XML struct {
		Address string `xml:"ipv6Address"`
	}
	tagXML struct {
		Key   string `xml:"key"`
		Value string `xml:"value"`
	}
	volumesReply struct {
		XMLName xml.Name    `xml:"DescribeVolumesResponse"`
		Volumes []volumeXML `xml:"volumeSet>item"`
		Next    string      `xml:"nextToken,omitempty"`
	}
	volumeXML struct {
		ID   string `xml:"volumeId"`
		Zone string `xml:"availabilityZone"`
	}
	topologyReply struct {
		XMLName   xml.Name      `xml:"DescribeInstanceTopologyResponse"`
		Instances []topologyXML `xml:"instanceSet>item"`
	}
	topologyXML struct {
		ID    string   `xml:"instanceId"`
		Nodes []string `xml:"networkNodeSet>item"`
	}
	zonesReply struct {
		XMLName xml.Name  `xml:"DescribeAvailabilityZonesResponse"`
		Zones   []zoneXML `xml:"availabilityZoneInfo>item"`
	}
	zoneXML struct {
		Name string `xml:"zoneName"`
		ID   string `xml:"zoneId"`
	}
)

func instanceOf(i types.Instance) instanceXML {
	out := instanceXML{
		ID: aws.ToString(i.InstanceId), State: string(i.State.Name), Type: string(i.InstanceType), Zone: aws.ToString(i.Placement.AvailabilityZone),
		ZoneID: aws.ToString(i.Placement.AvailabilityZoneId), PrivateDNS: aws.ToString(i.PrivateDnsName), PublicDNS: aws.ToString(i.PublicDnsName),
		PublicIP: aws.ToString(i.PublicIpAddress),
	}
	if i.LaunchTime != nil {
		out.Launched = i.LaunchTime.UTC().Format(time.RFC3339)
	}
	for _, n := range i.NetworkInterfaces {
		eni := eniXML{Status: string(n.Status)}
		if n.Attachment != nil {
			eni.Attachment = &attachmentXML{aws.ToInt32(n.Attachment.DeviceIndex), n.Attachment.NetworkCardIndex}
		}
		for _, a := range n.PrivateIpAddresses {
			eni.IPv4 = append(eni.IPv4, ip4XML{aws.ToString(a.PrivateIpAddress)})
		}
		for _, a := range n.Ipv6Addresses {
			eni.IPv6 = append(eni.IPv6, ip6XML{aws.ToString(a.Ipv6Address)})
		}
		out.Interfaces = append(out.Interfaces, eni)
	}
	for _, t := range i.Tags {
		out.Tags = append(out.Tags, tagXML{aws.ToString(t.Key), aws.ToString(t.Value)})
	}
	return out
}
