package ec2

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/store"
)

// Options configure regions. The zero value is a good one.
type Options struct {
	// StateDelay is how long instances are pending, stopping and shutting-down; 0 is no time.
	StateDelay time.Duration
	// Retention is how long terminated instances are visible, 1 hour by default.
	Retention time.Duration
	// RulesPerGroup, 60 by default, counts a security group's inbound rules, those for IPv4 apart from those for IPv6.
	RulesPerGroup int
	// GroupsPerVPC is 2500 by default: EC2's quota is one of the region.
	GroupsPerVPC int
	// RoutesPerTable is 500 by default, the local routes not counted.
	RoutesPerTable int
	// Addresses is a /16 of which the default VPC has the first half, and public addresses are of the third quarter, in place of
	// 172.31.0.0/16 and 198.18.0.0/15. The last quarter is left.
	Addresses netip.Prefix
}

func (o *Options) complete() {
	for _, d := range []struct {
		at *int
		is int
	}{{&o.RulesPerGroup, 60}, {&o.GroupsPerVPC, 2500}, {&o.RoutesPerTable, 500}} {
		if *d.at == 0 {
			*d.at = d.is
		}
	}
	if o.Retention == 0 {
		o.Retention = time.Hour
	}
}

// Region is what an account has in a region. All methods may be called concurrently.
type Region struct {
	account, name string
	opts          Options
	seed          uint64

	mu          sync.Mutex // guards all below
	consistency time.Duration
	clock       store.Clock

	zones      store.Table[*Zone]
	vpcs       store.Table[*VPC]
	subnets    store.Table[*Subnet]
	tables     store.Table[*RouteTable]
	groups     store.Table[*SecurityGroup]
	instances  store.Table[*Instance]
	interfaces store.Table[*NetworkInterface]
	volumes    store.Table[*Volume]
	addresses  store.Table[*Address]
	pools      map[string]*pool // by subnet
	publicIPs  *pool            // of Amazon's, which are given and taken back
	topology   bool
}

// New makes a region with its zones and the default VPC.
func New(account, name string, opts Options) *Region {
	opts.complete()
	h := fnv.New64a()
	_, _ = h.Write([]byte(account + "/" + name)) // never fails
	r := &Region{account: account, name: name, opts: opts, seed: h.Sum64(), pools: map[string]*pool{}, topology: true}
	r.publicIPs = newPool("198.18.0.0/15") // nobody's: they are for benchmarks
	vpc := netip.MustParsePrefix("172.31.0.0/16")
	if o := opts.Addresses; o.IsValid() {
		vpc = netip.PrefixFrom(o.Addr(), 17)
		r.publicIPs = newPool(netip.PrefixFrom(at(o, 128), 18).String())
	}
	r.furnish(vpc)
	return r
}

// Name is the region's, such as "eu-central-1".
func (r *Region) Name() string { return r.name }

// Account is the ID of the account that all belongs to.
func (r *Region) Account() string { return r.account }

// SetConsistency lets instances and security groups be found only once they are older than d: those asked for by ID are
// "not found" before, and lists lack them. 0, the default, shows all at once.
func (r *Region) SetConsistency(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.consistency = d
}

// lock locks, and does what has become due.
func (r *Region) lock() {
	r.mu.Lock()
	r.clock.Settle()
}

// newID makes an ID that no other region has. Locked.
func (r *Region) newID(prefix string) string {
	return fmt.Sprintf("%s-0%016x", prefix, r.seed^uint64(r.clock.Next())*0x9e3779b97f4a7c15)
}

// visible reports whether what was created then can be seen by now.
func (r *Region) visible(v interface{ Created() time.Time }) bool {
	return r.consistency == 0 || time.Since(v.Created()) >= r.consistency
}
