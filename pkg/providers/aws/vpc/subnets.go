package vpc

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

const (
	// layoutAge is the age of the subnets that is good enough, and missAge where what is looked for is not among them: Services that
	// name what is not there come again and again, and must not have it read each time.
	layoutAge, missAge = 5 * time.Minute, 30 * time.Second

	annotation   = "service.beta.kubernetes.io/aws-load-balancer-subnets"
	rolePublic   = "kubernetes.io/role/elb"
	roleInternal = "kubernetes.io/role/internal-elb"
	// regular is the type of zones in which there are load balancers, unlike local zones and others.
	regular = "availability-zone"
)

// layout is how the VPC is divided.
type layout struct {
	subnets []types.Subnet // sorted by ID
	tables  []types.RouteTable
	zones   map[string]string // the types of zones by names
	place   *place
}

func (n *Network) readLayout(ctx context.Context) (*layout, error) {
	p, err := n.place(ctx)
	if err != nil {
		return nil, err
	}
	l := &layout{zones: map[string]string{}, place: p}
	in := api.Filter("vpc-id", p.vpc)
	if l.subnets, err = n.c.Subnets(ctx, in); err != nil {
		return nil, err
	}
	if l.tables, err = n.c.RouteTables(ctx, in); err != nil {
		return nil, err
	}
	zones, err := n.c.Zones(ctx)
	if err != nil {
		return nil, err
	}
	for _, z := range zones {
		l.zones[aws.ToString(z.ZoneName)] = aws.ToString(z.ZoneType)
	}
	slices.SortFunc(l.subnets, func(a, b types.Subnet) int { return cmp.Compare(aws.ToString(a.SubnetId), aws.ToString(b.SubnetId)) })
	return l, nil
}

// Subnets are those of a load balancer, at least one. named are IDs (subnet-…) and values of the tag Name, as an annotation
// has them: each must name one subnet; they are returned IDs first. Without named it is one in each availability zone of those
// that have the cluster's tag or no cluster's, sorted by zone; where internal is false, of those only that are public. The error
// is KindInvalid where none can be found, and says what to tag.
func (n *Network) Subnets(ctx context.Context, internal bool, named []string) (out []Subnet, err error) {
	for _, age := range []time.Duration{layoutAge, missAge} {
		l, err := n.layout.Get(ctx, age, n.readLayout)
		if err != nil {
			return nil, err
		}
		if len(named) > 0 {
			out, err = l.named(named)
		} else {
			out, err = l.pick(n.cluster(), internal)
		}
		if err == nil || age == missAge {
			return out, err
		}
	}
	return nil, nil
}

// named are the subnets of an annotation.
func (l *layout) named(named []string) (out []Subnet, err error) {
	isID := func(s string) bool { return strings.HasPrefix(s, "subnet-") }
	order := slices.Clone(named)
	slices.SortStableFunc(order, func(a, b string) int { return -cmp.Compare(number(isID(a)), number(isID(b))) })
	for _, name := range order {
		found := slices.DeleteFunc(slices.Clone(l.subnets), func(s types.Subnet) bool {
			return isID(name) && aws.ToString(s.SubnetId) != name || !isID(name) && !slices.ContainsFunc(s.Tags, func(t types.Tag) bool {
				return aws.ToString(t.Key) == "Name" && aws.ToString(t.Value) == name
			})
		})
		switch len(found) {
		case 0:
			return nil, cloud.Errorf(cloud.KindInvalid, "VPC %s has no subnet %.100q; name subnets by ID (subnet-…) or by their tag Name",
				l.place.vpc, name)
		case 1:
		default:
			return nil, cloud.Errorf(cloud.KindInvalid, "VPC %s has %d subnets with the tag Name=%.100s (%s and %s); name them by ID",
				l.place.vpc, len(found), name, aws.ToString(found[0].SubnetId), aws.ToString(found[1].SubnetId))
		}
		s := l.subnet(&found[0])
		if slices.ContainsFunc(out, func(o Subnet) bool { return o.ID == s.ID }) {
			return nil, cloud.Errorf(cloud.KindInvalid, "subnet %s is named twice", s.ID)
		}
		out = append(out, s)
	}
	return out, nil
}

// pick takes one of the subnets in each availability zone.
func (l *layout) pick(cluster string, internal bool) ([]Subnet, error) {
	role, what := rolePublic, "a public"
	if internal {
		role, what = roleInternal, "an internal"
	}
	of := slices.DeleteFunc(slices.Clone(l.subnets), func(s types.Subnet) bool { return !tags.Has(s.Tags, cluster) && !tags.Free(s.Tags) })
	if len(of) == 0 {
		of = slices.DeleteFunc(slices.Clone(l.subnets), func(s types.Subnet) bool { return aws.ToString(s.SubnetId) != l.place.subnet })
	}
	rank := func(s *types.Subnet) int {
		has := slices.ContainsFunc(s.Tags, func(t types.Tag) bool { return aws.ToString(t.Key) == role })
		return 2*number(has) + number(tags.Has(s.Tags, cluster))
	}
	best := map[string]*types.Subnet{}
	for i := range of {
		s, zone := &of[i], aws.ToString(of[i].AvailabilityZone)
		public, known := l.public(s)
		switch kind, ok := l.zones[zone]; {
		case !known:
			return nil, cloud.Errorf(cloud.KindInvalid, "subnet %s has no route table, and VPC %s no main one; give it one",
				aws.ToString(s.SubnetId), l.place.vpc)
		case zone == "" || !internal && !public || ok && kind != regular:
		case best[zone] == nil || rank(s) > rank(best[zone]): // of equal ones the first, which has the lowest ID
			best[zone] = s
		}
	}
	var out []Subnet
	for _, s := range best {
		out = append(out, l.subnet(s))
	}
	slices.SortFunc(out, func(a, b Subnet) int { return cmp.Compare(a.Zone, b.Zone) })
	if len(out) > 0 {
		return out, nil
	}
	route := ""
	if !internal {
		route = " a route to an internet gateway, and"
	}
	return nil, cloud.Errorf(cloud.KindInvalid, "no subnet of VPC %s is fit for %s load balancer: it must be in an availability zone and have%s "+
		"the tag %s or no tag of another cluster; tag one in each zone (and %s, where a zone has several), or name subnets in the annotation %s",
		l.place.vpc, what, route, tags.Key(cluster), role, annotation)
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// public reports whether a subnet has a route to an internet gateway: in the table that is associated with it, else in the VPC's
// main one. known is false where there is neither.
func (l *layout) public(s *types.Subnet) (public, known bool) {
	table := l.tableOf(s)
	return table != nil && slices.ContainsFunc(table.Routes, toInternet), table != nil
}

func toInternet(r types.Route) bool { return strings.HasPrefix(aws.ToString(r.GatewayId), "igw") }

// public6 reports whether a subnet has a route of IPv6 to an internet gateway.
func (l *layout) public6(s *types.Subnet) bool {
	table := l.tableOf(s)
	return table != nil && slices.ContainsFunc(table.Routes, func(r types.Route) bool { return r.DestinationIpv6CidrBlock != nil && toInternet(r) })
}

// tableOf is the table that is associated with a subnet, else the VPC's main one; nil where there is neither.
func (l *layout) tableOf(s *types.Subnet) *types.RouteTable {
	own := l.table(func(a types.RouteTableAssociation) bool { return aws.ToString(a.SubnetId) == aws.ToString(s.SubnetId) })
	if own != nil {
		return own
	}
	return l.table(func(a types.RouteTableAssociation) bool { return aws.ToBool(a.Main) })
}

// table is one with such an association, nil for none.
func (l *layout) table(has func(types.RouteTableAssociation) bool) *types.RouteTable {
	i := slices.IndexFunc(l.tables, func(t types.RouteTable) bool { return slices.ContainsFunc(t.Associations, has) })
	if i < 0 {
		return nil
	}
	return &l.tables[i]
}

func (l *layout) subnet(s *types.Subnet) Subnet {
	out := Subnet{ID: aws.ToString(s.SubnetId), Zone: aws.ToString(s.AvailabilityZone)}
	out.Public, _ = l.public(s)
	out.Public6 = l.public6(s)
	if p, err := netip.ParsePrefix(aws.ToString(s.CidrBlock)); err == nil {
		out.CIDRs = append(out.CIDRs, p)
	}
	for _, a := range s.Ipv6CidrBlockAssociationSet {
		if p, err := netip.ParsePrefix(aws.ToString(a.Ipv6CidrBlock)); err == nil && (a.Ipv6CidrBlockState == nil || a.Ipv6CidrBlockState.State == types.SubnetCidrBlockStateCodeAssociated) {
			out.CIDRs = append(out.CIDRs, p)
		}
	}
	return out
}
