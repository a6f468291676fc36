package vpc

import (
	"context"
	"net/netip"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
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
}

// New makes the network of the client's region. cluster is the ID in the cluster's tag, "" while it is not known.
func New(c *api.Client, cfg *config.Global, cluster func() string, _ joint.Options) *Network {
	return &Network{c: c, cfg: cfg, cluster: cluster}
}

// Attach has again called when the rules in the groups of Nodes that a Service waits for have been written, until ctx ends. See
// cloud.Waiting.
func (n *Network) Attach(context.Context, func(cloud.LoadBalancerRef)) {}

// ID is the VPC's ID: [Global] VPC, else that of this machine's instance.
func (n *Network) ID(context.Context) (string, error) { return "", unwritten() }

// Subnet is a subnet of a load balancer.
type Subnet struct {
	ID, Zone string
	// CIDRs has the IPv4 one first.
	CIDRs []netip.Prefix
	// Public says that there is a route to an internet gateway.
	Public bool
}

// Subnets are those of a load balancer, at least one. named are IDs (subnet-…) and values of the tag Name, as an annotation
// has them: each must name one subnet; they are returned IDs first. Without named it is one in each availability zone of those
// that have the cluster's tag or no cluster's, sorted by zone; where internal is false, of those only that are public. The error
// is KindInvalid where none can be found, and says what to tag.
func (n *Network) Subnets(_ context.Context, _ bool, _ []string) ([]Subnet, error) {
	return nil, unwritten()
}

// Instance is one behind a load balancer.
type Instance struct {
	ID, VPC, SubnetID, Zone string
	// State is EC2's: pending, running, stopping, stopped, shutting-down, terminated.
	State string
	// Groups are the IDs of all its security groups.
	Groups []string
}

// Instances are those of members, by the IDs of their instances, from a list that Services share. What is no instance of EC2
// (Fargate), is not there any more or is terminated is left out.
func (n *Network) Instances(context.Context, []cloud.LoadBalancerMember) (map[string]Instance, error) {
	return nil, unwritten()
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

// EnsureGroup makes a load balancer's own security group, and makes what it lets in exactly rules, whatever their descriptions.
// It is found again by its name. One of that name that is not provably this cluster's is KindConflict. While EC2 does not know
// yet what it has made it is KindRetryAfter.
func (n *Network) EnsureGroup(_ context.Context, _ cloud.LoadBalancerRef, _ Group, _ []Rule) (id string, err error) {
	return "", unwritten()
}

// FindGroup returns the ID of the load balancer's own security group of that name, "" where there is none that is provably this
// cluster's.
func (n *Network) FindGroup(_ context.Context, _ cloud.LoadBalancerRef, _ string) (id string, err error) {
	return "", unwritten()
}

// DeleteGroup deletes the load balancer's own security group of that name. Nil when there is none that is provably this
// cluster's: others' are left alone. It is KindRetryAfter while something uses it: the interfaces of a deleted load balancer
// stay for some minutes. Rules of other groups that name it must be gone before, see DeleteNodeRules.
func (n *Network) DeleteGroup(_ context.Context, _ cloud.LoadBalancerRef, _ string) error {
	return unwritten()
}

// NodeRules are what the security groups of Nodes let in for one load balancer. The groups of an instance are all that have the
// cluster's tag, else its only one.
type NodeRules struct {
	// LoadBalancer is its name, which is in the descriptions of rules by CIDRs.
	LoadBalancer string
	// Instances are the IDs of the members' instances.
	Instances []string

	// Source is a classic load balancer's security group, of which everything is let in. SharedSource says that it is not its
	// own, so that other Services may need the same rule: it stays where it is not wanted any more, unless LastOfSource says that
	// no other load balancer has the group.
	Source                     string
	SharedSource, LastOfSource bool

	// Clients are let in to Ports by Protocol ("tcp", "udp") of a network load balancer, and are told of smaller MTUs.
	Clients  []netip.Prefix
	Protocol string
	Ports    []int32
	// HealthPorts are checked by TCP from Subnets. Where the rules for Clients cover that, there are no rules for it.
	HealthPorts []int32
	Subnets     []netip.Prefix
}

// EnsureNodeRules makes the groups of Nodes let in what is wanted, together with what other Services want: KindRetryAfter until
// that has been done, see joint.Objects. With DisableSecurityGroupIngress it does nothing.
func (n *Network) EnsureNodeRules(_ context.Context, _ cloud.LoadBalancerRef, _ NodeRules) error {
	return unwritten()
}

// DeleteNodeRules takes a load balancer's rules out of the groups of Nodes, as EnsureNodeRules does. Of hint, LoadBalancer and
// Source count, with SharedSource and LastOfSource.
func (n *Network) DeleteNodeRules(_ context.Context, _ cloud.LoadBalancerRef, _ NodeRules) error {
	return unwritten()
}

func unwritten() error {
	return cloud.Errorf(cloud.KindUnsupported, "load balancers of AWS are not served yet")
}
