package vpc

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

const (
	// enough is how many free addresses AWS asks a subnet to have for a load balancer.
	enough = 8
	// usualRules is how many rules of a family a security group may have, unless the quota was raised.
	usualRules = 60
)

// Scene is what a diagnosis has found of the network, for others to look on.
type Scene struct {
	// Cluster are the cluster's instances that run in the VPC, sorted by ID, none while the cluster is not known.
	Cluster []string
	// Groups are the security groups of these in which load balancers are let in, sorted.
	Groups []string
	// Tables are the IDs of the VPC's route tables; of those that have the cluster's tag in Tagged.
	Tables, Tagged []string
}

// Diagnose looks, with new reads, for what keeps load balancers and pod routes from being made in the VPC.
func (n *Network) Diagnose(ctx context.Context) (problems []cloud.Problem, s Scene, err error) {
	l, err := n.readLayout(ctx)
	if err != nil {
		return nil, s, err
	}
	for i := range l.tables {
		id := aws.ToString(l.tables[i].RouteTableId)
		if s.Tables = append(s.Tables, id); tags.Has(l.tables[i].Tags, n.cluster()) {
			s.Tagged = append(s.Tagged, id)
		}
	}
	if len(l.subnets) == 0 {
		return []cloud.Problem{{Object: "VPC " + l.place.vpc, What: "it has no subnet, or is not of this account and region", Next: "correct VPC and Region in [Global] of cloud.conf"}}, s, nil
	}
	if id := n.cfg.SubnetID; id != "" && l.byID(id) == nil {
		problems = append(problems, cloud.Problem{Object: "subnet " + id, What: "SubnetID in [Global] of cloud.conf names it, and VPC " + l.place.vpc + " has no such subnet", Next: "correct SubnetID, or leave it out"})
	}
	var instances map[string]*Instance
	if n.cluster() != "" {
		if instances, err = n.readInstances(ctx, api.Filter("tag-key", tags.Keys(n.cluster())...), api.Filter("vpc-id", l.place.vpc)); err != nil {
			return problems, s, err
		}
		maps.DeleteFunc(instances, func(_ string, i *Instance) bool { return i.State != string(types.InstanceStateNameRunning) })
		s.Cluster = slices.Sorted(maps.Keys(instances))
	}
	problems = append(problems, l.diagnose(n.cluster(), instances)...)
	found, err := n.diagnoseGroups(ctx, instances, &s)
	return append(problems, found...), s, err
}

func (l *layout) byID(id string) *types.Subnet {
	i := slices.IndexFunc(l.subnets, func(s types.Subnet) bool { return aws.ToString(s.SubnetId) == id })
	if i < 0 {
		return nil
	}
	return &l.subnets[i]
}

// diagnose looks at the subnets that load balancers would get.
func (l *layout) diagnose(cluster string, instances map[string]*Instance) (problems []cloud.Problem) {
	zones := map[string]bool{}
	for _, i := range instances {
		zones[i.Zone] = true
	}
	seen := map[string]bool{}
	for _, internal := range []bool{false, true} {
		what := "public"
		if internal {
			what = "internal"
		}
		picked, err := l.pick(cluster, internal)
		if err != nil {
			problems = append(problems, cloud.Problem{Object: what + " load balancers", What: err.Error(), Warning: !internal,
				Next: "tag subnets, or where no such load balancer is wanted leave it so"})
			continue
		}
		has := map[string]bool{}
		for i := range picked {
			has[picked[i].Zone] = true
			if s := l.byID(picked[i].ID); !seen[picked[i].ID] {
				seen[picked[i].ID] = true
				problems = append(problems, full(s)...)
			}
		}
		for _, zone := range slices.Sorted(maps.Keys(zones)) {
			if kind, ok := l.zones[zone]; !has[zone] && ok && kind == regular {
				problems = append(problems, cloud.Problem{Object: "zone " + zone, What: "the cluster has instances there, and " + what + " load balancers get no subnet: these instances get traffic only where it is balanced across zones", Warning: true,
					Next: "tag a subnet of the zone with " + tags.Key(cluster) + ", or turn balancing across zones on"})
			}
		}
	}
	return problems
}

// full is about a subnet without enough free addresses for a load balancer.
func full(s *types.Subnet) []cloud.Problem {
	free := aws.ToInt32(s.AvailableIpAddressCount)
	if s.AvailableIpAddressCount == nil || free >= enough {
		return nil
	}
	return []cloud.Problem{{Object: "subnet " + aws.ToString(s.SubnetId), What: fmt.Sprintf("load balancers are made in it, and it has %d free IPv4 addresses; AWS asks for %d", free, enough), Warning: free > 0,
		Next: "delete what nobody needs, or tag another subnet of zone " + aws.ToString(s.AvailabilityZone)}}
}

// diagnoseGroups looks at the security groups of instances, and at the one of cloud.conf.
func (n *Network) diagnoseGroups(ctx context.Context, instances map[string]*Instance, s *Scene) (problems []cloud.Problem, err error) {
	p, err := n.place(ctx)
	if err != nil {
		return nil, err
	}
	all, err := n.c.SecurityGroups(ctx, api.Filter("vpc-id", p.vpc))
	if err != nil {
		return nil, err
	}
	groups := make(map[string]*types.SecurityGroup, len(all))
	for i := range all {
		groups[aws.ToString(all[i].GroupId)] = &all[i]
	}
	if id := n.cfg.ElbSecurityGroup; id != "" && groups[id] == nil {
		problems = append(problems, cloud.Problem{Object: "security group " + id, What: "ElbSecurityGroup in [Global] of cloud.conf names it, and VPC " + p.vpc + " has no such group: no classic load balancer is made",
			Next: "correct ElbSecurityGroup, or leave it out: each load balancer gets one of its own then"})
	}
	values := make(map[string]Instance, len(instances))
	for id, i := range instances {
		values[id] = *i
	}
	open, _, err := n.groupsOf(values, groups, slices.Sorted(maps.Keys(values)))
	s.Groups = open
	if n.cfg.DisableSGIngress {
		return problems, nil
	}
	if err != nil { // which instances have none to be opened
		problems = append(problems, cloud.Problem{Object: "security groups of instances", What: err.Error(), Next: "tag one of each instance's groups with " + tags.Key(n.cluster())})
	}
	for _, id := range open {
		if rules := inbound(groups[id]); rules >= usualRules {
			problems = append(problems, cloud.Problem{Object: "security group " + id, What: fmt.Sprintf("it has %d inbound rules, and AWS allows %d of a family unless the quota was raised: load balancers may not be let in", rules, usualRules), Warning: true,
				Next: "have the quota of inbound rules per security group raised, or let fewer Services, ports or source ranges in"})
		}
	}
	return problems, nil
}

// inbound is how many inbound rules a group has by AWS' count, of the family that has more.
func inbound(g *types.SecurityGroup) int {
	v4, v6, both := 0, 0, 0
	for i := range g.IpPermissions {
		r := &g.IpPermissions[i]
		v4, v6, both = v4+len(r.IpRanges), v6+len(r.Ipv6Ranges), both+len(r.UserIdGroupPairs)+len(r.PrefixListIds)
	}
	return both + max(v4, v6)
}
