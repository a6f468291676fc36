package wire

import (
	"slices"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

func (c *Call) describeZones() error {
	names, ids := c.In.Strings("ZoneName"), c.In.Strings("ZoneId")
	find := func([]string) ([]*ec2.Zone, error) {
		all := c.Region.Zones()
		for _, name := range names {
			if !slices.ContainsFunc(all, func(z *ec2.Zone) bool { return z.Name == name }) {
				return nil, query.Errorf("InvalidParameterValue", "Invalid availability zone: [%s]", name)
			}
		}
		for _, id := range ids {
			if !slices.ContainsFunc(all, func(z *ec2.Zone) bool { return z.ID == id }) {
				return nil, query.Errorf("InvalidParameterValue", "Invalid availability zone-id: [%s]", id) // unverified message
			}
		}
		return slices.DeleteFunc(all, func(z *ec2.Zone) bool {
			hidden := z.OptIn == "not-opted-in" && c.In.Get("AllAvailabilityZones") != "true"
			return hidden || len(names) > 0 && !slices.Contains(names, z.Name) || len(ids) > 0 && !slices.Contains(ids, z.ID)
		}), nil
	}
	return list(c, "availabilityZoneInfo", listing[*ec2.Zone]{
		fields: query.Fields[*ec2.Zone]{
			"opt-in-status":    is(func(z *ec2.Zone) string { return z.OptIn }),
			"parent-zone-name": is(func(z *ec2.Zone) string { return z.Parent }),
			"region-name":      is(func(*ec2.Zone) string { return c.Region.Name() }),
			"state":            is(func(*ec2.Zone) string { return "available" }),
			"zone-id":          is(func(z *ec2.Zone) string { return z.ID }),
			"zone-name":        is(func(z *ec2.Zone) string { return z.Name }),
			"zone-type":        is(func(z *ec2.Zone) string { return z.Type }),
		},
		find: find,
	}, func(z *ec2.Zone) {
		w := c.Out
		w.Text("zoneName", z.Name)
		w.Text("zoneId", z.ID)
		w.Text("zoneState", "available")
		w.Text("zoneType", z.Type)
		w.Text("regionName", c.Region.Name())
		w.Text("groupName", c.Region.Name()+"-zg-1")
		w.Text("networkBorderGroup", c.Region.Name())
		w.Text("optInStatus", z.OptIn)
		w.Text("parentZoneName", z.Parent)
		if z.Parent != "" {
			w.Text("parentZoneId", c.Region.ZoneID(z.Parent))
		}
		query.Strings(w, "messageSet", nil)
	})
}

func (c *Call) describeVPCs() error {
	return list(c, "vpcSet", listing[*ec2.VPC]{
		ids: "VpcId", set: "vpcSet", least: 5, most: 1000, // unverified name in the message
		fields: withTags(func(v *ec2.VPC) map[string]string { return v.Tags }, query.Fields[*ec2.VPC]{
			"cidr":                              is(func(v *ec2.VPC) string { return v.CIDR }),
			"cidr-block-association.cidr-block": is(func(v *ec2.VPC) string { return v.CIDR }),
			"ipv6-cidr-block-association.ipv6-cidr-block": is(func(v *ec2.VPC) string { return v.IPv6CIDR }),
			"is-default": truth(func(v *ec2.VPC) bool { return v.Default }),
			"owner-id":   is(func(*ec2.VPC) string { return c.Region.Account() }),
			"state":      is(func(*ec2.VPC) string { return "available" }),
			"vpc-id":     is(func(v *ec2.VPC) string { return v.ID }),
		}),
		find: c.Region.VPCs,
	}, func(v *ec2.VPC) {
		w := c.Out
		w.Text("vpcId", v.ID)
		w.Text("ownerId", c.Region.Account())
		w.Text("state", "available")
		w.Text("cidrBlock", v.CIDR)
		query.List(w, "cidrBlockAssociationSet", []string{v.CIDR}, func(cidr string) {
			w.Text("cidrBlock", cidr)
			w.Text("associationId", "vpc-cidr-assoc-"+strings.TrimPrefix(v.ID, "vpc-"))
			w.Open("cidrBlockState")
			w.Text("state", "associated")
			w.Close()
		})
		c.writeIPv6Block(v.ID, v.IPv6CIDR)
		w.Text("instanceTenancy", "default")
		w.Bool("isDefault", v.Default)
		c.writeTags(v.Tags)
	})
}

// writeIPv6Block writes the IPv6 block of a VPC or a subnet, if it has one.
func (c *Call) writeIPv6Block(id, cidr string) {
	if cidr == "" {
		return
	}
	kind, rest, _ := strings.Cut(id, "-")
	query.List(c.Out, "ipv6CidrBlockAssociationSet", []string{cidr}, func(cidr string) {
		c.Out.Text("ipv6CidrBlock", cidr)
		c.Out.Text("associationId", kind+"-cidr-assoc-"+rest)
		c.Out.Open("ipv6CidrBlockState")
		c.Out.Text("state", "associated")
		c.Out.Close()
	})
}

func (c *Call) describeSubnets() error {
	zone := is(func(s *ec2.Subnet) string { return s.Zone })
	zoneID := is(func(s *ec2.Subnet) string { return c.Region.ZoneID(s.Zone) })
	cidr := is(func(s *ec2.Subnet) string { return s.CIDR })
	byDefault := truth(func(s *ec2.Subnet) bool { return s.Default })
	return list(c, "subnetSet", listing[*ec2.Subnet]{
		ids: "SubnetId", set: "subnetSet", least: 5, most: 1000, // unverified name in the message
		fields: withTags(func(s *ec2.Subnet) map[string]string { return s.Tags }, query.Fields[*ec2.Subnet]{
			"availability-zone": zone, "availabilityZone": zone, "availability-zone-id": zoneID, "availabilityZoneId": zoneID,
			"available-ip-address-count": is(func(s *ec2.Subnet) string { return strconv.Itoa(c.Region.Available(s)) }),
			"cidr-block":                 cidr, "cidr": cidr, "cidrBlock": cidr,
			"default-for-az": byDefault, "defaultForAz": byDefault,
			"ipv6-cidr-block-association.ipv6-cidr-block": is(func(s *ec2.Subnet) string { return s.IPv6CIDR }),
			"map-public-ip-on-launch":                     truth(func(s *ec2.Subnet) bool { return s.MapPublicIP }),
			"owner-id":                                    is(func(*ec2.Subnet) string { return c.Region.Account() }),
			"state":                                       is(func(*ec2.Subnet) string { return "available" }),
			"subnet-id":                                   is(func(s *ec2.Subnet) string { return s.ID }),
			"vpc-id":                                      is(func(s *ec2.Subnet) string { return s.VPCID }),
		}),
		find: c.Region.Subnets,
	}, func(s *ec2.Subnet) {
		w := c.Out
		w.Text("subnetId", s.ID)
		w.Text("state", "available")
		w.Text("ownerId", c.Region.Account())
		w.Text("vpcId", s.VPCID)
		w.Text("cidrBlock", s.CIDR)
		c.writeIPv6Block(s.ID, s.IPv6CIDR)
		w.Int("availableIpAddressCount", c.Region.Available(s))
		w.Text("availabilityZone", s.Zone)
		w.Text("availabilityZoneId", c.Region.ZoneID(s.Zone))
		w.Bool("defaultForAz", s.Default)
		w.Bool("mapPublicIpOnLaunch", s.MapPublicIP)
		c.writeTags(s.Tags)
	})
}

func (c *Call) routeTableFields() query.Fields[*ec2.RouteTable] {
	type table = *ec2.RouteTable
	associations := func(get func(ec2.Association) string) func(table, string) []string {
		return of(func(t table) []string {
			return gather(t.Associations, func(a ec2.Association) []string { return []string{get(a)} })
		})
	}
	routes := func(get func(ec2.SeenRoute) string) func(table, string) []string {
		return of(func(t table) []string {
			return gather(c.Region.Routes(t), func(r ec2.SeenRoute) []string { return []string{get(r)} })
		})
	}
	ofFamily := func(r ec2.SeenRoute, v6 bool) string {
		if strings.Contains(r.Destination, ":") == v6 {
			return r.Destination
		}
		return ""
	}
	return withTags(func(t table) map[string]string { return t.Tags }, query.Fields[table]{
		"association.main":                       associations(func(a ec2.Association) string { return strconv.FormatBool(a.Main) }),
		"association.route-table-association-id": associations(func(a ec2.Association) string { return a.ID }),
		"association.route-table-id":             is(func(t table) string { return t.ID }),
		"association.subnet-id":                  associations(func(a ec2.Association) string { return a.SubnetID }),
		"owner-id":                               is(func(table) string { return c.Region.Account() }),
		"route-table-id":                         is(func(t table) string { return t.ID }),
		"route.destination-cidr-block":           routes(func(r ec2.SeenRoute) string { return ofFamily(r, false) }),
		"route.destination-ipv6-cidr-block":      routes(func(r ec2.SeenRoute) string { return ofFamily(r, true) }),
		"route.gateway-id":                       routes(func(r ec2.SeenRoute) string { return r.GatewayID }),
		"route.instance-id":                      routes(func(r ec2.SeenRoute) string { return r.InstanceID }),
		"route.nat-gateway-id":                   routes(func(r ec2.SeenRoute) string { return r.NATGatewayID }),
		"route.origin":                           routes(func(r ec2.SeenRoute) string { return r.Origin }),
		"route.state":                            routes(func(r ec2.SeenRoute) string { return r.State }),
		"vpc-id":                                 is(func(t table) string { return t.VPCID }),
	})
}

func (c *Call) describeRouteTables() error {
	return list(c, "routeTableSet", listing[*ec2.RouteTable]{
		ids: "RouteTableId", least: 5, most: 100, fields: c.routeTableFields(), find: c.Region.RouteTables,
	}, func(t *ec2.RouteTable) {
		w := c.Out
		w.Text("routeTableId", t.ID)
		w.Text("vpcId", t.VPCID)
		w.Text("ownerId", c.Region.Account())
		query.List(w, "routeSet", c.Region.Routes(t), c.writeRoute)
		query.List(w, "associationSet", t.Associations, func(a ec2.Association) {
			w.Text("routeTableAssociationId", a.ID)
			w.Text("routeTableId", t.ID)
			w.Text("subnetId", a.SubnetID)
			w.Bool("main", a.Main)
			w.Open("associationState")
			w.Text("state", "associated")
			w.Close()
		})
		query.Strings(w, "propagatingVgwSet", nil)
		c.writeTags(t.Tags)
	})
}

func (c *Call) writeRoute(r ec2.SeenRoute) {
	w := c.Out
	if strings.Contains(r.Destination, ":") {
		w.Text("destinationIpv6CidrBlock", r.Destination)
	} else {
		w.Text("destinationCidrBlock", r.Destination)
	}
	w.Text("gatewayId", r.GatewayID)
	w.Text("natGatewayId", r.NATGatewayID)
	w.Text("transitGatewayId", r.OtherTargetID)
	w.Text("instanceId", r.InstanceID)
	if r.InstanceID != "" {
		w.Text("instanceOwnerId", c.Region.Account())
	}
	w.Text("networkInterfaceId", r.InterfaceID)
	w.Text("state", r.State)
	w.Text("origin", r.Origin)
}

// route is what a request says of a route. v6 tells the family of its destination.
func (c *Call) route() (table string, route ec2.Route, v6 bool, err error) {
	if table, err = c.required("RouteTableId"); err != nil {
		return "", ec2.Route{}, false, err
	}
	route = ec2.Route{
		Destination: c.In.Get("DestinationCidrBlock"), InstanceID: c.In.Get("InstanceId"),
		InterfaceID: c.In.Get("NetworkInterfaceId"),
		GatewayID:   c.In.Get("GatewayId"), NATGatewayID: c.In.Get("NatGatewayId"), OtherTargetID: c.In.Get("TransitGatewayId"),
	}
	if route.Destination == "" {
		route.Destination, v6 = c.In.Get("DestinationIpv6CidrBlock"), true
	}
	if route.Destination == "" { // unverified message
		return "", ec2.Route{}, false, query.Errorf("MissingParameter", "The request must contain the parameter destinationCidrBlock")
	}
	return table, route, v6, nil
}

func (c *Call) createRoute() error {
	table, route, v6, err := c.route()
	if err != nil {
		return err
	}
	return c.done(c.Region.CreateRoute(table, route, v6))
}

func (c *Call) replaceRoute() error {
	table, route, _, err := c.route()
	if err != nil {
		return err
	}
	return c.done(c.Region.ReplaceRoute(table, route))
}

func (c *Call) deleteRoute() error {
	table, route, _, err := c.route()
	if err != nil {
		return err
	}
	return c.done(c.Region.DeleteRoute(table, route.Destination))
}
