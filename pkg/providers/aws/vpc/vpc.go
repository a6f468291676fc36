package vpc

import (
	"cmp"
	"context"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/batcher"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
)

// Network is the cluster's VPC, as load balancers need it. All methods may be called concurrently. It is one for all kinds of
// load balancers, as they share what is read, and the groups of Nodes.
type Network struct {
	c   *api.Client
	cfg *config.Global
	// cluster is the ID in the cluster's tag.
	cluster func() string

	here      atomic.Pointer[place]
	layout    inventory.Value[*layout]
	instances instances
	groups    inventory.Value[groups]
	// latest reads groups that are about to be deleted, and having the interfaces that have groups. stuck are groups that could not be
	// deleted as something has them, and since when.
	latest *batcher.Batcher[string, cloud.Result[*types.SecurityGroup]]
	having *batcher.Batcher[string, []types.NetworkInterface]
	stuck  inventory.Memory[string, time.Time]
	nodes  *joint.Objects[NodeRules, []string]
	now    func() time.Time

	mu sync.Mutex
	// wishes are the rules that Services were seen to have, by groups; who is gone goes. They only ever keep rules.
	wishes map[cloud.LoadBalancerKey]map[string]wish
	// owed are rules, by groups, that were taken out to be made anew under the name of another Service, and may not be there yet.
	owed map[string]atoms
}

// waitForNodes is how long EnsureNodeRules waits for what it has asked for, and waiters how many do: others come again.
const (
	waitForNodes = 2 * time.Second
	waiters      = 2
)

// New makes the network of the client's region. cluster is the ID in the cluster's tag, "" while it is not known. The options are
// of the rules in the groups of Nodes, and their clock of all that is remembered; what is not set has its default.
func New(c *api.Client, cfg *config.Global, cluster func() string, o joint.Options) *Network {
	n := &Network{c: c, cfg: cfg, cluster: cluster, wishes: map[cloud.LoadBalancerKey]map[string]wish{}, owed: map[string]atoms{}}
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	n.now = o.Clock.Now
	n.instances.byID = batcher.New[string, cloud.Result[*Instance]](batcher.Options{})
	n.layout.Now, n.groups.Now, n.instances.list.Now = n.now, n.now, n.now
	n.layout.Read, n.groups.Read, n.instances.list.Read = c.Keep("network"), c.Keep("security_groups"), c.Keep("members")
	o.Wait, o.Waiters = cmp.Or(o.Wait, waitForNodes), cmp.Or(o.Waiters, waiters)
	n.nodes = joint.New(n.pass, o)
	n.latest = batcher.New[string, cloud.Result[*types.SecurityGroup]](batcher.Options{})
	n.having = batcher.New[string, []types.NetworkInterface](batcher.Options{})
	return n
}

// Attach has again called when the rules in the groups of Nodes that a Service waits for have been written, until ctx ends. See
// cloud.Waiting.
func (n *Network) Attach(ctx context.Context, again func(cloud.LoadBalancerRef)) {
	n.nodes.Attach(ctx, func(ref cloud.LoadBalancerRef) {
		ref.UID = strings.TrimSuffix(ref.UID, classicTenant)
		again(ref)
	})
}

// place is where the cluster is: a VPC, and the subnet of the machine that this runs on, "" where that is somewhere else.
type place struct{ vpc, subnet string }

// ID is the VPC's ID: [Global] VPC, else that of this machine's instance.
func (n *Network) ID(ctx context.Context) (string, error) {
	p, err := n.place(ctx)
	if err != nil {
		return "", err
	}
	return p.vpc, nil
}

func (n *Network) place(ctx context.Context) (*place, error) {
	if p := n.here.Load(); p != nil {
		return p, nil
	}
	p := &place{vpc: n.cfg.VPC, subnet: n.cfg.SubnetID}
	if p.vpc == "" {
		const hint = "set VPC in [Global] of cloud.conf"
		self, err := n.c.Self(ctx, hint)
		if err != nil {
			return nil, err
		}
		i, err := n.c.Instance(ctx, self)
		if err != nil {
			return nil, err
		}
		if p.vpc, p.subnet = aws.ToString(i.VpcId), aws.ToString(i.SubnetId); p.vpc == "" {
			return nil, cloud.Errorf(cloud.KindInvalid, "instance %s, which this machine is, is in no VPC; %s", self, hint)
		}
	}
	n.here.Store(p)
	return p, nil
}

// Subnet is a subnet of a load balancer.
type Subnet struct {
	ID, Zone string
	// CIDRs has the IPv4 one first.
	CIDRs []netip.Prefix
	// Public says that there is a route to an internet gateway, Public6 that there is one of IPv6.
	Public, Public6 bool
}

// ReachedByIPv6 reports whether a load balancer in it can be reached by IPv6: it has a range of it and, where the load balancer is not internal,
// a way to the internet.
func (s *Subnet) ReachedByIPv6(internal bool) bool {
	return (internal || s.Public6) && len(family.Ranges(s.CIDRs, true)) > 0
}

// Instance is one behind a load balancer.
type Instance struct {
	ID, VPC, SubnetID, Zone string
	// State is EC2's: pending, running, stopping, stopped, shutting-down.
	State string
	// Groups are the IDs of all its security groups.
	Groups []string
	// PrimaryIPv6 says that it has an address of IPv6 that stays, by which alone it is a target by IPv6.
	PrimaryIPv6 bool
}

// Rule lets something in: Protocol ("tcp", "udp", "icmp", "-1" for all, without ports) at the ports from From to To (of ICMP the
// type and the code), for CIDRs and for what has one of the security groups Groups.
type Rule struct {
	Protocol    string
	From, To    int32
	CIDRs       []netip.Prefix
	Groups      []string
	Description string
}

// Group is a load balancer's own security group. The tags of the cluster are set beside Tags, which count at its creation only.
type Group struct {
	Name, Description string
	Tags              map[string]string
}

// NodeRules are what the security groups of Nodes let in for one load balancer. The groups of an instance are all that have the
// cluster's tag, else its only one.
type NodeRules struct {
	// LoadBalancer is its name, which is in the descriptions of rules by CIDRs.
	LoadBalancer string
	// Instances are the IDs of the members' instances.
	Instances []string

	// Source is a classic load balancer's security group, of which everything is let in. SharedSource says that it is not its
	// own, so that others may need the same rule, and that it stays.
	Source       string
	SharedSource bool
	// Former is the load balancer's own security group where it has another one in its place by now, or is deleted: nothing is let
	// in of it any more.
	Former string
	// SharedFormer is a group in Former's place that is not the load balancer's own, and that no other load balancer has which is known
	// to the caller: nothing is let in of it any more, unless anything else in the VPC has it.
	SharedFormer string

	// Clients are let in to Ports by Protocol ("tcp", "udp") of a network load balancer, and are told of smaller MTUs.
	Clients  []netip.Prefix
	Protocol string
	Ports    []int32
	// HealthPorts are reached by TCP from Subnets, by checks and by clients who come with the load balancer's addresses. Where the rules
	// for Clients cover that, there are no rules for it.
	HealthPorts []int32
	Subnets     []netip.Prefix

	// Frozen says that these are not all rules of the load balancer, as nobody knows what its Service wants by now: what is there of it stays.
	Frozen bool
}
