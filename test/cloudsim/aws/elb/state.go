package elb

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/store"
)

// Options configure regions. The zero value is a good one: its limits are AWS' quotas.
type Options struct {
	// Release is how long a deleted load balancer keeps its network interfaces; 0 is no time.
	Release time.Duration
	// LoadBalancers is 20 by default, Listeners (of a load balancer) 100.
	LoadBalancers, Listeners int
}

// Region is what an account has in a region. All methods may be called concurrently.
type Region struct {
	ec2  *ec2.Region
	opts Options

	mu        sync.Mutex // guards all below
	clock     store.Clock
	balancers store.Table[*LoadBalancer]
}

// New makes a region without load balancers, whose subnets, instances and security groups are EC2's.
func New(region *ec2.Region, opts Options) *Region {
	if opts.LoadBalancers == 0 {
		opts.LoadBalancers = 20
	}
	if opts.Listeners == 0 {
		opts.Listeners = 100
	}
	return &Region{ec2: region, opts: opts}
}

// Limits are the account's, by AWS' names of them.
func (r *Region) Limits() map[string]int {
	return map[string]int{"classic-load-balancers": r.opts.LoadBalancers, "classic-listeners": r.opts.Listeners, "classic-registered-instances": 1000}
}

// LoadBalancer is a classic load balancer in a VPC.
type LoadBalancer struct {
	store.Record
	Name, DNSName string
	// Scheme is "internet-facing" or "internal".
	Scheme, VPCID  string
	Subnets        []Subnet
	SecurityGroups []string
	Listeners      []Listener
	Check          Check
	Instances      []string
	Policies       []Policy
	// Backends are the names of policies for ports of instances.
	Backends map[int][]string
	// Attributes are by path, such as "CrossZoneLoadBalancing.Enabled"; those behind "AdditionalAttributes." are by key.
	Attributes map[string]string
	Tags       map[string]string
	health     map[string]Health // what tests have set
}

// Subnet is a subnet in which a load balancer has a node.
type Subnet struct{ ID, Zone, interfaceID string }

// Listener is a listener of a load balancer.
type Listener struct {
	Port, InstancePort                         int
	Protocol, InstanceProtocol, CertificateARN string
	Policies                                   []string
}

// Check says how instances are probed: Target is such as "HTTP:80/healthz".
type Check struct {
	Target                                string
	Interval, Timeout, Healthy, Unhealthy int
}

// Policy is a policy of a load balancer.
type Policy struct {
	Name, Type string
	Attributes [][2]string
}

// Health is what is said of an instance: State is "InService" or "OutOfService", Reason "ELB", "Instance" or "N/A".
type Health struct{ State, Reason, Description string }

// Key is the name.
func (b *LoadBalancer) Key() string { return b.Name }

func (b *LoadBalancer) clone() *LoadBalancer {
	out := *b
	out.Subnets, out.SecurityGroups = slices.Clone(b.Subnets), slices.Clone(b.SecurityGroups)
	out.Instances, out.Listeners, out.Policies = slices.Clone(b.Instances), slices.Clone(b.Listeners), slices.Clone(b.Policies)
	out.Backends, out.Attributes = maps.Clone(b.Backends), maps.Clone(b.Attributes)
	out.Tags, out.health = maps.Clone(b.Tags), maps.Clone(b.health)
	return &out
}

func (b *LoadBalancer) listener(port int) int {
	return slices.IndexFunc(b.Listeners, func(l Listener) bool { return l.Port == port })
}

func (r *Region) lock() {
	r.mu.Lock()
	r.clock.Settle()
}

// missing is the error about a load balancer that does not exist.
func missing(name string) error {
	return query.Errorf("LoadBalancerNotFound", "There is no ACTIVE Load Balancer named '%s'", name)
}

// Change changes a load balancer as edit says, which gets a copy. It returns the load balancer.
func (r *Region) Change(name string, edit func(*LoadBalancer) error) (*LoadBalancer, error) {
	r.lock()
	defer r.mu.Unlock()
	b := r.balancers.Get(name)
	if b == nil {
		return nil, missing(name)
	}
	next := b.clone()
	if err := edit(next); err != nil {
		return nil, err
	}
	r.balancers.Put(next)
	return next, nil
}

// LoadBalancers are those with these names, or all.
func (r *Region) LoadBalancers(names []string) ([]*LoadBalancer, error) {
	r.lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if r.balancers.Get(name) == nil {
			return nil, missing(name)
		}
	}
	return r.balancers.Where(func(b *LoadBalancer) bool { return len(names) == 0 || slices.Contains(names, b.Name) }), nil
}

var nameForm = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?$`)

// Create makes a load balancer of what of its fields a request has. One that is there with the same settings is returned.
func (r *Region) Create(in LoadBalancer) (*LoadBalancer, error) {
	r.lock()
	defer r.mu.Unlock()
	b := in.clone()
	if !nameForm.MatchString(b.Name) { // unverified message
		return nil, query.Errorf("ValidationError", "LoadBalancer name '%s' is not valid", b.Name)
	}
	if b.Scheme == "" {
		b.Scheme = "internet-facing"
	}
	if len(b.Listeners) == 0 || len(b.Subnets) == 0 { // unverified message; EC2-Classic's zones without subnets are not simulated
		return nil, query.Errorf("ValidationError", "Listeners and subnets must be specified")
	}
	if err := r.locate(b); err != nil {
		return nil, err
	}
	if err := r.CheckGroups(b); err != nil {
		return nil, err
	}
	for i := range b.Listeners {
		if err := b.Listeners[i].complete(); err != nil {
			return nil, err
		}
	}
	if o := r.balancers.Get(b.Name); o != nil {
		if !b.equal(o) {
			return nil, query.Errorf("DuplicateLoadBalancerName",
				"Load Balancer named %s already exists and it is configured with different parameters", b.Name)
		}
		return o, nil
	}
	if len(r.balancers.All()) >= r.opts.LoadBalancers { // unverified message
		return nil, query.Errorf("TooManyLoadBalancers", "Exceeded quota of account")
	}
	if err := CheckTags(b.Tags); err != nil {
		return nil, err
	}
	b.Record = r.clock.Record()
	b.DNSName = fmt.Sprintf("%s-%010d.%s.elb.amazonaws.com", b.Name, 1000000000+b.Sequence(), r.ec2.Name())
	if b.Scheme == "internal" {
		b.DNSName = "internal-" + b.DNSName
	}
	if strings.HasPrefix(r.ec2.Name(), "cn-") {
		b.DNSName += ".cn"
	}
	b.Check = Check{Target: fmt.Sprintf("TCP:%d", b.Listeners[0].InstancePort), Interval: 30, Timeout: 5, Healthy: 10,
		Unhealthy: 2}
	b.Attributes = map[string]string{
		"CrossZoneLoadBalancing.Enabled": "false", "AccessLog.Enabled": "false",
		"ConnectionDraining.Enabled": "false", "ConnectionDraining.Timeout": "300", "ConnectionSettings.IdleTimeout": "60",
		"AdditionalAttributes.elb.http.desyncmitigationmode": "defensive",
	}
	b.Backends, b.health = map[int][]string{}, map[string]Health{}
	for i := range b.Subnets {
		r.attach(b, &b.Subnets[i])
	}
	r.balancers.Put(b)
	return b, nil
}

// CheckTags says whether a load balancer can have these tags.
func CheckTags(tags map[string]string) error {
	if len(tags) > 50 {
		return query.Errorf("TooManyTags", "The maximum number of tags has been reached")
	}
	return nil
}

func (b *LoadBalancer) equal(o *LoadBalancer) bool {
	same := func(x, y Listener) bool {
		return x.Port == y.Port && x.InstancePort == y.InstancePort && x.Protocol == y.Protocol &&
			x.InstanceProtocol == y.InstanceProtocol && x.CertificateARN == y.CertificateARN
	}
	return b.Scheme == o.Scheme && slices.EqualFunc(b.Listeners, o.Listeners, same) && slices.Equal(b.SecurityGroups,
		o.SecurityGroups) &&
		slices.EqualFunc(b.Subnets, o.Subnets, func(x,
			y Subnet) bool {
			return x.ID == y.ID
		}) // unverified: what counts, and in which order
}

// locate checks the subnets of a load balancer, and completes them. Locked.
func (r *Region) locate(b *LoadBalancer) error {
	zones := map[string]bool{}
	for i := range b.Subnets {
		s := &b.Subnets[i]
		found, err := r.ec2.Subnets([]string{s.ID})
		if err != nil { // unverified message
			return query.Errorf("SubnetNotFound", "The subnet ID '%s' does not exist", s.ID)
		}
		s.Zone = found[0].Zone
		if zones[s.Zone] { // unverified message
			return query.Errorf("InvalidConfigurationRequest", "ELB cannot be attached to multiple subnets in the same AZ.")
		}
		zones[s.Zone] = true
		if b.VPCID != "" && b.VPCID != found[0].VPCID { // unverified message
			return query.Errorf("InvalidConfigurationRequest", "All subnets must belong to the same VPC: '%s'", b.VPCID)
		}
		b.VPCID = found[0].VPCID
	}
	return nil
}

// CheckGroups checks the security groups of a load balancer, which has its VPC's default one when it has none.
func (r *Region) CheckGroups(b *LoadBalancer) error {
	if len(b.SecurityGroups) == 0 {
		all, err := r.ec2.SecurityGroups(nil)
		if err != nil {
			return err
		}
		for _, g := range all {
			if g.VPCID == b.VPCID && g.Name == "default" {
				b.SecurityGroups = []string{g.ID}
			}
		}
	}
	for _, id := range b.SecurityGroups {
		found, err := r.ec2.SecurityGroups([]string{id})
		if err != nil || found[0].VPCID != b.VPCID { // unverified message
			return query.Errorf("InvalidSecurityGroup", "One or more security groups are invalid: %s", id)
		}
	}
	return nil
}

// attach gives a load balancer its interface in a subnet.
func (r *Region) attach(b *LoadBalancer, s *Subnet) {
	s.interfaceID = r.ec2.AddInterface(ec2.NetworkInterface{
		SubnetID: s.ID, Managed: true, RequesterID: "amazon-elb", Attachment: "attached", Groups: b.SecurityGroups,
		Description: "ELB " + b.Name, Public: b.Scheme == "internet-facing",
	}).ID
}

// Delete deletes a load balancer. One that is not there is fine.
func (r *Region) Delete(name string) {
	r.lock()
	defer r.mu.Unlock()
	if b := r.balancers.Get(name); b != nil {
		r.balancers.Remove(name)
		for _, s := range b.Subnets {
			r.ec2.RemoveInterfaceAfter(r.opts.Release, s.interfaceID)
		}
	}
}

// SetHealth says what is to be said of a registered instance; the zero Health is what is said by default.
func (r *Region) SetHealth(name, instance string, h Health) {
	_, _ = r.Change(name, func(b *LoadBalancer) error {
		delete(b.health, instance)
		if h != (Health{}) && slices.Contains(b.Instances, instance) {
			b.health[instance] = h
		}
		return nil
	})
}

// Health is that of an instance of a load balancer.
func (r *Region) Health(b *LoadBalancer, instance string) Health {
	if h, ok := b.health[instance]; ok {
		return h
	}
	found, err := r.ec2.Instances([]string{instance})
	switch {
	case err != nil || found[0].State == ec2.Terminated:
		return Health{"OutOfService", "Instance", "Instance is in terminated state."}
	case found[0].State != ec2.Running:
		return Health{"OutOfService", "Instance", "Instance is in " + string(found[0].State) + " state."}
	}
	return Health{"InService", "N/A", "N/A"}
}
