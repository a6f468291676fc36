package ec2

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/store"
)

// Zone is an availability zone.
type Zone struct {
	store.Record
	Name, ID string
	// Type is "availability-zone" by default, or "local-zone" or "wavelength-zone" with Parent, the name of the zone it hangs on.
	Type, Parent string
	// OptIn is "opt-in-not-required" by default, or "opted-in" or "not-opted-in".
	OptIn string
}

// VPC is a virtual private cloud.
type VPC struct {
	store.Record
	ID, CIDR string
	// IPv6CIDR is "" when it has none.
	IPv6CIDR string
	Default  bool
	Tags     map[string]string
}

// Subnet is a subnet of a VPC.
type Subnet struct {
	store.Record
	ID, VPCID, CIDR, IPv6CIDR string
	// Zone is the name of its zone.
	Zone string
	// Default says that it is the zone's default subnet.
	Default bool
	// MapPublicIP gives instances public addresses.
	MapPublicIP bool
	Tags        map[string]string
}

// Key is the name.
func (z *Zone) Key() string { return z.Name }

// Key is the ID.
func (v *VPC) Key() string { return v.ID }

// Key is the ID.
func (s *Subnet) Key() string { return s.ID }

// furnish makes what a new account finds, with a default VPC of a range.
func (r *Region) furnish(all netip.Prefix) {
	for i, letter := range []string{"a", "b", "c"} {
		// Letters and numbers differ, as they do between accounts, for a mix-up to be seen.
		r.AddZone(Zone{Name: r.name + letter, ID: fmt.Sprintf("%s-az%d", zoneIDPrefix(r.name), (i+1)%3+1)})
	}
	vpc := r.AddVPC(VPC{CIDR: all.String(), Default: true})
	for i, letter := range []string{"a", "b", "c"} {
		r.AddSubnet(Subnet{VPCID: vpc.ID, CIDR: netip.PrefixFrom(at(all, i*16), 20).String(), Zone: r.name + letter, Default: true,
			MapPublicIP: true})
	}
	r.AddRoute(r.MainRouteTable(vpc.ID).ID, Route{Destination: "0.0.0.0/0", GatewayID: r.newID("igw")})
}

// at is the range's address with another third octet.
func at(p netip.Prefix, octet int) netip.Addr {
	b := p.Addr().As4()
	b[2] = byte(octet)
	return netip.AddrFrom4(b)
}

// zoneIDPrefix shortens a region's name as zone IDs have it: "use1", "apse2", "usgw1".
func zoneIDPrefix(region string) string {
	parts := strings.Split(region, "-")
	short := parts[0]
	for _, part := range parts[1:] {
		short += part[:1]
		for _, way := range []string{"east", "west"} {
			if part != way && strings.HasSuffix(part, way) {
				short += way[:1]
			}
		}
	}
	return short
}

// AddZone adds a zone to the three that are there. It returns the zone.
func (r *Region) AddZone(z Zone) *Zone {
	r.lock()
	defer r.mu.Unlock()
	if z.Type == "" {
		z.Type = "availability-zone"
	}
	if z.OptIn == "" {
		z.OptIn = "opt-in-not-required"
	}
	z.Record = r.clock.Record()
	r.zones.Put(&z)
	return &z
}

// AddVPC adds a VPC with its main route table and its default security group. ID is made when it is empty, CIDR is
// 10.0.0.0/16 by default. It returns the VPC.
func (r *Region) AddVPC(v VPC) *VPC {
	r.lock()
	defer r.mu.Unlock()
	if v.ID == "" {
		v.ID = r.newID("vpc")
	}
	if v.CIDR == "" {
		v.CIDR = "10.0.0.0/16"
	}
	v.Record, v.Tags = r.clock.Record(), maps.Clone(v.Tags)
	r.vpcs.Put(&v)
	r.newTable(RouteTable{VPCID: v.ID, Associations: []Association{{Main: true}}})
	group := r.newGroup(SecurityGroup{VPCID: v.ID, Name: "default", Description: "default VPC security group"})
	own := group.clone()
	own.Rules = append(own.Rules, Rule{ID: r.newID("sgr"), Protocol: "-1", Group: group.ID, GroupOwner: r.account})
	r.groups.Put(own)
	return &v
}

// AddSubnet adds a subnet. ID is made when it is empty, VPCID is the default VPC, and Zone the first zone by default. It
// returns the subnet.
func (r *Region) AddSubnet(s Subnet) *Subnet {
	r.lock()
	defer r.mu.Unlock()
	if s.ID == "" {
		s.ID = r.newID("subnet")
	}
	if s.VPCID == "" {
		s.VPCID = r.vpcs.Where(func(v *VPC) bool { return v.Default })[0].ID
	}
	if s.Zone == "" {
		s.Zone = r.zones.All()[0].Name
	}
	s.Record, s.Tags = r.clock.Record(), maps.Clone(s.Tags)
	r.subnets.Put(&s)
	r.pools[s.ID] = newPool(s.CIDR)
	return &s
}

// SetSubnetIPv6 gives a subnet a range of IPv6, or with "" takes it away.
func (r *Region) SetSubnetIPv6(id, cidr string) {
	r.lock()
	defer r.mu.Unlock()
	next := *r.subnets.Get(id)
	next.IPv6CIDR = cidr
	r.subnets.Put(&next)
}

// DefaultVPC is the VPC that a region starts with.
func (r *Region) DefaultVPC() *VPC {
	r.lock()
	defer r.mu.Unlock()
	return r.vpcs.Where(func(v *VPC) bool { return v.Default })[0]
}

// Zones are those of the region.
func (r *Region) Zones() []*Zone {
	r.lock()
	defer r.mu.Unlock()
	return r.zones.All()
}

// VPCs are those with these IDs, or all.
func (r *Region) VPCs(ids []string) ([]*VPC, error) {
	r.lock()
	defer r.mu.Unlock()
	return lookUp(&r.vpcs, "vpc", ids, nil)
}

// Subnets are those with these IDs, or all.
func (r *Region) Subnets(ids []string) ([]*Subnet, error) {
	r.lock()
	defer r.mu.Unlock()
	return lookUp(&r.subnets, "subnet", ids, nil)
}

// zoneID is the ID of a zone, "" if there is no such zone. Locked.
func (r *Region) zoneID(name string) string {
	if z := r.zones.Get(name); z != nil {
		return z.ID
	}
	return ""
}

// ZoneID is the ID of a zone, "" if there is no such zone.
func (r *Region) ZoneID(name string) string {
	r.lock()
	defer r.mu.Unlock()
	return r.zoneID(name)
}

// Available is how many IPv4 addresses a subnet has left. Five of each are AWS' own.
func (r *Region) Available(subnet *Subnet) int {
	r.lock()
	defer r.mu.Unlock()
	return r.pools[subnet.ID].left()
}

// pool has a subnet's IPv4 addresses.
type pool struct {
	prefix netip.Prefix
	next   netip.Addr
	used   map[netip.Addr]bool
}

func newPool(cidr string) *pool {
	p := &pool{prefix: netip.MustParsePrefix(cidr).Masked(), used: map[netip.Addr]bool{}}
	p.next = p.first()
	return p
}

// first is the first address that is not AWS' own: the network's, the router's, DNS and one for later.
func (p *pool) first() netip.Addr { return p.prefix.Addr().Next().Next().Next().Next() }

// left is how many addresses are free. The last one is AWS' own, too.
func (p *pool) left() int { return 1<<(32-p.prefix.Bits()) - 5 - len(p.used) }

// take returns a free address. A subnet that is full is a mistake of the test's.
func (p *pool) take() string {
	if p.left() <= 0 {
		panic("subnet " + p.prefix.String() + " has no address left: add a larger one")
	}
	for {
		a := p.next
		if p.next = a.Next(); !p.prefix.Contains(p.next) {
			p.next = p.first()
			continue
		}
		if !p.used[a] {
			p.used[a] = true
			return a.String()
		}
	}
}
