package wire

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

func (c *Call) instanceFilters() query.Fields[*ec2.Instance] {
	fields := withTags(func(i *ec2.Instance) map[string]string { return i.Tags }, query.Fields[*ec2.Instance]{
		"availability-zone":    is(func(i *ec2.Instance) string { return i.Zone }),
		"availability-zone-id": is(func(i *ec2.Instance) string { return c.Region.ZoneID(i.Zone) }),
		"dns-name":             is(func(i *ec2.Instance) string { return i.PublicDNSName }),
		"instance-id":          is(func(i *ec2.Instance) string { return i.ID }),
		"instance-lifecycle":   is(lifecycle),
		"instance-state-code":  is(func(i *ec2.Instance) string { return strconv.Itoa(i.State.Code()) }),
		"instance-state-name":  is(func(i *ec2.Instance) string { return string(i.State) }),
		"instance-type":        is(func(i *ec2.Instance) string { return i.Type }),
		"instance.group-id":    of(groups),
		"ip-address":           is(func(i *ec2.Instance) string { return i.PublicIP }),
		"ipv6-address": of(func(i *ec2.Instance) []string {
			return gather(i.Interfaces, func(n *ec2.NetworkInterface) []string { return n.IPv6 })
		}),
		"owner-id":                               is(func(*ec2.Instance) string { return c.Region.Account() }),
		"placement-group-name":                   is(func(i *ec2.Instance) string { return i.PlacementGroup }),
		"private-dns-name":                       is(func(i *ec2.Instance) string { return i.PrivateDNSName }),
		"private-dns-name-options.hostname-type": is(hostnameType),
		"private-ip-address":                     is(func(i *ec2.Instance) string { return i.PrivateIP }),
		"reservation-id":                         is(reservation),
		"source-dest-check":                      truth(sourceDestCheck),
		"subnet-id":                              is(func(i *ec2.Instance) string { return i.SubnetID }),
		"vpc-id":                                 is(func(i *ec2.Instance) string { return i.VPCID }),
	})
	for name, get := range c.interfaceFields() {
		fields["network-interface."+name] = func(i *ec2.Instance, argument string) []string {
			return gather(i.Interfaces, func(n *ec2.NetworkInterface) []string { return get(n, argument) })
		}
	}
	return fields
}

func gather[T any](items []T, get func(T) []string) []string {
	var out []string
	for _, item := range items {
		out = append(out, get(item)...)
	}
	return out
}

func lifecycle(i *ec2.Instance) string {
	if i.Spot {
		return "spot"
	}
	return ""
}

func hostnameType(i *ec2.Instance) string {
	if i.ResourceName {
		return "resource-name"
	}
	return "ip-name"
}

// reservation is the ID of the launch of an instance: here each was launched alone.
func reservation(i *ec2.Instance) string { return "r" + i.ID[1:] }

func sourceDestCheck(i *ec2.Instance) bool {
	n := i.Primary()
	return n == nil || !n.NoSourceDestCheck
}

// groups are the security groups of an instance: those of its primary interface.
func groups(i *ec2.Instance) []string {
	if n := i.Primary(); n != nil {
		return n.Groups
	}
	return nil
}

func (c *Call) describeInstances() error {
	return list(c, "reservationSet", listing[*ec2.Instance]{
		ids: "InstanceId", set: "instancesSet", least: 5, most: 1000, fields: c.instanceFilters(), find: c.Region.Instances,
	}, func(i *ec2.Instance) {
		c.Out.Text("reservationId", reservation(i))
		c.Out.Text("ownerId", c.Region.Account())
		query.Strings(c.Out, "groupSet", nil) // EC2-Classic's
		query.List(c.Out, "instancesSet", []*ec2.Instance{i}, c.writeInstance)
	})
}

func (c *Call) writeInstance(i *ec2.Instance) {
	w := c.Out
	w.Text("instanceId", i.ID)
	w.Text("imageId", "ami-0123456789abcdef0")
	w.Open("instanceState")
	w.Int("code", i.State.Code())
	w.Text("name", string(i.State))
	w.Close()
	// A terminated instance has these two elements, too, without a text.
	c.textOrEmpty("privateDnsName", i.PrivateDNSName)
	c.textOrEmpty("dnsName", i.PublicDNSName)
	w.Int("amiLaunchIndex", 0)
	w.Text("instanceType", i.Type)
	w.Time("launchTime", i.Launched)
	w.Open("placement")
	w.Text("availabilityZone", i.Zone)
	w.Text("availabilityZoneId", c.Region.ZoneID(i.Zone))
	c.textOrEmpty("groupName", i.PlacementGroup)
	w.Text("tenancy", "default")
	w.Close()
	w.Open("monitoring")
	w.Text("state", "disabled")
	w.Close()
	w.Text("subnetId", i.SubnetID)
	w.Text("vpcId", i.VPCID)
	w.Text("privateIpAddress", i.PrivateIP)
	w.Text("ipAddress", i.PublicIP)
	if n := i.Primary(); n != nil {
		w.Bool("sourceDestCheck", !n.NoSourceDestCheck)
		if len(n.IPv6) > 0 {
			w.Text("ipv6Address", n.IPv6[0])
		}
	}
	c.writeGroups(groups(i))
	w.Text("architecture", "x86_64")
	w.Text("rootDeviceType", "ebs")
	w.Text("rootDeviceName", "/dev/xvda")
	w.Text("virtualizationType", "hvm")
	w.Text("instanceLifecycle", lifecycle(i))
	c.writeTags(i.Tags)
	w.Text("hypervisor", "xen")
	query.List(w, "networkInterfaceSet", i.Interfaces, func(n *ec2.NetworkInterface) { c.writeInterface(n, false) })
	w.Bool("ebsOptimized", false)
	w.Bool("enaSupport", true)
	w.Open("privateDnsNameOptions")
	w.Text("hostnameType", hostnameType(i))
	w.Bool("enableResourceNameDnsARecord", i.ResourceName)
	w.Bool("enableResourceNameDnsAAAARecord", false)
	w.Close()
}

func (c *Call) textOrEmpty(name, value string) {
	c.Out.Open(name)
	c.Out.Escaped(value)
	c.Out.Close()
}

// modifyInstance changes what of an instance the manager changes. One request changes one attribute.
func (c *Call) modifyInstance() error {
	id, err := c.required("InstanceId")
	if err != nil {
		return err
	}
	check, groups := c.In.At("SourceDestCheck"), c.In.Strings("GroupId")
	if check == nil && len(groups) == 0 {
		return query.Errorf("InvalidParameterCombination",
			"No attributes specified.") // what of the others the real EC2 takes is not simulated
	}
	return c.done(c.Region.ModifyInstance(id, forwards(check), groups))
}

// forwards is the opposite of the attribute SourceDestCheck; nil for none.
func forwards(check *query.Form) *bool {
	if check == nil {
		return nil
	}
	is := check.Get("Value") == "false"
	return &is
}

// maxTopology is how many instances, and placement groups, DescribeInstanceTopology is asked for by name at most.
const maxTopology = 100

// describeTopology lists instances that run and whose type has a topology. Unverified is whether one asked for by ID that has
// none is left out, as here, or refused, and which instances' states are listed.
func (c *Call) describeTopology() error {
	if !c.Region.HasTopology() { // unverified status and message
		return &query.Error{Status: http.StatusBadRequest, Code: "UnsupportedOperation",
			Message: "The functionality you requested is not available in this region."}
	}
	groups := c.In.Strings("GroupName")
	if len(c.In.Strings("InstanceId")) > maxTopology || len(groups) > maxTopology { // unverified code
		return query.Errorf("InvalidParameterValue", "The maximum number of IDs on a single call is %d", maxTopology)
	}
	return list(c, "instanceSet", listing[*ec2.Instance]{
		ids: "InstanceId", set: "instanceIdSet", least: 1, most: 100, usual: 20,
		fields: query.Fields[*ec2.Instance]{
			"availability-zone": is(func(i *ec2.Instance) string { return i.Zone }),
			"instance-type":     is(func(i *ec2.Instance) string { return i.Type }),
			"zone-id":           is(func(i *ec2.Instance) string { return c.Region.ZoneID(i.Zone) }),
		},
		find: func(ids []string) ([]*ec2.Instance, error) {
			all, err := c.Region.Instances(ids)
			return slices.DeleteFunc(all, func(i *ec2.Instance) bool {
				return len(i.NetworkNodes) == 0 || i.State != ec2.Running || len(groups) > 0 && !slices.Contains(groups, i.PlacementGroup)
			}), err
		},
	}, func(i *ec2.Instance) {
		c.Out.Text("instanceId", i.ID)
		c.Out.Text("instanceType", i.Type)
		c.Out.Text("groupName", i.PlacementGroup)
		query.Strings(c.Out, "networkNodeSet", i.NetworkNodes)
		c.Out.Text("availabilityZone", i.Zone)
		c.Out.Text("zoneId", c.Region.ZoneID(i.Zone))
	})
}
