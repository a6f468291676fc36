package wire

import (
	"slices"
	"strconv"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

func (c *Call) interfaceFields() query.Fields[*ec2.NetworkInterface] {
	type n = *ec2.NetworkInterface
	attached := func(value func(n) string) func(n, string) []string {
		return is(func(v n) string {
			if v.InstanceID == "" {
				return ""
			}
			return value(v)
		})
	}
	return query.Fields[n]{
		"addresses.private-ip-address":     of(func(v n) []string { return v.PrivateIPs }),
		"addresses.primary":                of(primaries),
		"association.public-ip":            is(func(v n) string { return v.PublicIP }),
		"association.public-dns-name":      is(func(v n) string { return c.Region.PublicDNSName(v.PublicIP) }),
		"attachment.attachment-id":         attached(n.AttachmentID),
		"attachment.delete-on-termination": attached(func(n) string { return "true" }),
		"attachment.device-index":          attached(func(v n) string { return strconv.Itoa(v.DeviceIndex) }),
		"attachment.instance-id":           attached(func(v n) string { return v.InstanceID }),
		"attachment.instance-owner-id":     attached(func(n) string { return c.Region.Account() }),
		"attachment.network-card-index":    attached(func(v n) string { return strconv.Itoa(v.NetworkCardIndex) }),
		"attachment.status":                is(func(v n) string { return v.Attachment }),
		"availability-zone":                is(func(v n) string { return v.Zone }),
		"description":                      is(func(v n) string { return v.Description }),
		"group-id":                         of(func(v n) []string { return v.Groups }),
		"interface-type":                   is(func(v n) string { return v.Type }),
		"ipv4-prefixes.ipv4-prefix":        of(func(v n) []string { return v.IPv4Prefixes }),
		"ipv6-addresses.ipv6-address":      of(func(v n) []string { return v.IPv6 }),
		"ipv6-prefixes.ipv6-prefix":        of(func(v n) []string { return v.IPv6Prefixes }),
		"mac-address":                      is(func(v n) string { return v.MAC }),
		"network-interface-id":             is(func(v n) string { return v.ID }),
		"owner-id":                         is(func(n) string { return c.Region.Account() }),
		"private-dns-name":                 is(func(v n) string { return c.Region.PrivateDNSName(v.PrivateIP()) }),
		"private-ip-address":               of(func(v n) []string { return v.PrivateIPs }),
		"requester-id":                     is(func(v n) string { return v.RequesterID }),
		"requester-managed":                truth(func(v n) bool { return v.Managed }),
		"source-dest-check":                truth(func(v n) bool { return !v.NoSourceDestCheck }),
		"status":                           is(n.Status),
		"subnet-id":                        is(func(v n) string { return v.SubnetID }),
		"vpc-id":                           is(func(v n) string { return v.VPCID }),
	}
}

func primaries(n *ec2.NetworkInterface) []string {
	var out []string
	for i := range n.PrivateIPs {
		out = append(out, strconv.FormatBool(i == 0))
	}
	return out
}

func (c *Call) describeInterfaces() error {
	return list(c, "networkInterfaceSet", listing[*ec2.NetworkInterface]{
		ids: "NetworkInterfaceId", set: "networkInterfaceIdSet", least: 5, most: 1000, // unverified name in the message
		fields: withTags(func(n *ec2.NetworkInterface) map[string]string { return n.Tags }, c.interfaceFields()),
		find:   c.Region.Interfaces,
	}, func(n *ec2.NetworkInterface) { c.writeInterface(n, true) })
}

// writeInterface writes an interface as its own list has it, or an instance. The two differ a little.
func (c *Call) writeInterface(n *ec2.NetworkInterface, alone bool) {
	w := c.Out
	w.Text("networkInterfaceId", n.ID)
	w.Text("subnetId", n.SubnetID)
	w.Text("vpcId", n.VPCID)
	if alone {
		w.Text("availabilityZone", n.Zone)
		w.Text("availabilityZoneId", c.Region.ZoneID(n.Zone))
		w.Text("requesterId", n.RequesterID)
		w.Bool("requesterManaged", n.Managed)
	}
	c.textOrEmpty("description", n.Description)
	w.Text("ownerId", c.Region.Account())
	w.Text("status", n.Status())
	w.Text("macAddress", n.MAC)
	w.Text("privateIpAddress", n.PrivateIP())
	w.Text("privateDnsName", c.Region.PrivateDNSName(n.PrivateIP()))
	w.Bool("sourceDestCheck", !n.NoSourceDestCheck)
	c.writeGroups(n.Groups)
	c.writeAttachment(n, alone)
	c.writeAssociation(n)
	query.List(w, "privateIpAddressesSet", n.PrivateIPs, func(ip string) {
		w.Text("privateIpAddress", ip)
		w.Text("privateDnsName", c.Region.PrivateDNSName(ip))
		w.Bool("primary", ip == n.PrivateIP())
		if ip == n.PrivateIP() {
			c.writeAssociation(n)
		}
	})
	query.List(w, "ipv6AddressesSet", n.IPv6, func(ip string) {
		w.Text("ipv6Address", ip)
		w.Bool("isPrimaryIpv6", n.PrimaryIPv6 && ip == n.IPv6[0])
	})
	for _, p := range []struct {
		set, name string
		prefixes  []string
	}{{"ipv4PrefixSet", "ipv4Prefix", n.IPv4Prefixes}, {"ipv6PrefixSet", "ipv6Prefix", n.IPv6Prefixes}} {
		if len(p.prefixes) > 0 {
			query.List(w, p.set, p.prefixes, func(prefix string) { w.Text(p.name, prefix) })
		}
	}
	w.Text("interfaceType", n.Type)
	if alone {
		c.writeTags(n.Tags)
	}
}

func (c *Call) writeAttachment(n *ec2.NetworkInterface, alone bool) {
	if n.InstanceID == "" {
		return
	}
	w := c.Out
	w.Open("attachment")
	w.Text("attachmentId", n.AttachmentID())
	if alone {
		w.Text("instanceId", n.InstanceID)
		w.Text("instanceOwnerId", c.Region.Account())
	}
	w.Int("deviceIndex", n.DeviceIndex)
	w.Int("networkCardIndex", n.NetworkCardIndex)
	w.Text("status", n.Attachment)
	w.Bool("deleteOnTermination", true)
	w.Close()
}

// writeAssociation writes the public address of an interface.
func (c *Call) writeAssociation(n *ec2.NetworkInterface) {
	if n.PublicIP == "" {
		return
	}
	c.Out.Open("association")
	c.Out.Text("publicIp", n.PublicIP)
	c.Out.Text("publicDnsName", c.Region.PublicDNSName(n.PublicIP))
	c.Out.Text("ipOwnerId", "amazon")
	c.Out.Close()
}

// writeGroups writes security groups with their names.
func (c *Call) writeGroups(ids []string) {
	query.List(c.Out, "groupSet", ids, func(id string) {
		c.Out.Text("groupId", id)
		c.Out.Text("groupName", c.Region.GroupName(id))
	})
}

// modifyInterface changes what of an interface the manager changes.
func (c *Call) modifyInterface() error {
	id, err := c.required("NetworkInterfaceId")
	if err != nil {
		return err
	}
	return c.done(c.Region.ModifyInterface(id, forwards(c.In.At("SourceDestCheck")), c.In.Strings("SecurityGroupId")))
}

func (c *Call) describeAddresses() error {
	ips := c.In.Strings("PublicIp")
	interfaceOf := func(a *ec2.Address) *ec2.NetworkInterface {
		if a.InterfaceID == "" {
			return &ec2.NetworkInterface{}
		}
		found, err := c.Region.Interfaces([]string{a.InterfaceID})
		if err != nil {
			return &ec2.NetworkInterface{}
		}
		return found[0]
	}
	return list(c, "addressesSet", listing[*ec2.Address]{
		ids: "AllocationId",
		fields: withTags(func(a *ec2.Address) map[string]string { return a.Tags }, query.Fields[*ec2.Address]{
			"allocation-id":        is(func(a *ec2.Address) string { return a.ID }),
			"instance-id":          is(func(a *ec2.Address) string { return interfaceOf(a).InstanceID }),
			"network-interface-id": is(func(a *ec2.Address) string { return a.InterfaceID }),
			"private-ip-address":   is(func(a *ec2.Address) string { return interfaceOf(a).PrivateIP() }),
			"public-ip":            is(func(a *ec2.Address) string { return a.PublicIP }),
			"network-border-group": is(func(*ec2.Address) string { return c.Region.Name() }),
		}),
		find: func(ids []string) ([]*ec2.Address, error) {
			all, err := c.Region.Addresses(ids)
			if err != nil || len(ips) == 0 {
				return all, err
			}
			for _, ip := range ips {
				if !slices.ContainsFunc(all, func(a *ec2.Address) bool { return a.PublicIP == ip }) {
					return nil, query.Errorf("InvalidAddress.NotFound", "Address '%s' not found.", ip)
				}
			}
			return slices.DeleteFunc(all, func(a *ec2.Address) bool { return !slices.Contains(ips, a.PublicIP) }), nil
		},
	}, func(a *ec2.Address) {
		w, n := c.Out, interfaceOf(a)
		w.Text("publicIp", a.PublicIP)
		w.Text("allocationId", a.ID)
		w.Text("domain", "vpc")
		w.Text("publicIpv4Pool", "amazon")
		w.Text("networkBorderGroup", c.Region.Name())
		if a.InterfaceID != "" {
			w.Text("associationId", "eipassoc-"+a.ID[len("eipalloc-"):])
			w.Text("networkInterfaceId", a.InterfaceID)
			w.Text("networkInterfaceOwnerId", c.Region.Account())
			w.Text("instanceId", n.InstanceID)
			w.Text("privateIpAddress", n.PrivateIP())
		}
		c.writeTags(a.Tags)
	})
}
