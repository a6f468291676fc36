package elbv2

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/store"
)

// LoadBalancer is a Network Load Balancer, or in name alone one of another type.
type LoadBalancer struct {
	store.Record
	ARN, Name, DNSName string
	// Type is "network", "application" or "gateway", Scheme "internet-facing" or "internal", IPAddressType "ipv4" or "dualstack".
	Type, Scheme, IPAddressType string
	VPCID                       string
	// State is "provisioning", "active", "active_impaired" or "failed".
	State          string
	Mappings       []Mapping
	SecurityGroups []string
	Attributes     map[string]string
	Tags           map[string]string
}

// Mapping is where a load balancer has a node.
type Mapping struct {
	SubnetID, Zone                      string
	AllocationID, PrivateIP, IPv6       string
	interfaceID, publicIP, ownPrivateIP string
}

// PublicIP is the address that an allocation has.
func (m Mapping) PublicIP() string { return m.publicIP }

// Key is the ARN.
func (b *LoadBalancer) Key() string { return b.ARN }

// CreateLoadBalancer makes a load balancer of what of its fields a request has. One that is there with the same settings
// is returned.
func (r *Region) CreateLoadBalancer(in LoadBalancer) (*LoadBalancer, error) {
	r.lock()
	defer r.mu.Unlock()
	if err := errors.Join(checkName("Load balancer", in.Name), checkTags(in.Tags, nil)); err != nil {
		return nil, err
	}
	in.Type, in.Scheme = or(in.Type, "application"), or(in.Scheme, "internet-facing")
	in.IPAddressType = or(in.IPAddressType, ipv4)
	if !slices.Contains([]string{"internet-facing", "internal"}, in.Scheme) {
		return nil, query.Errorf("InvalidScheme", "The scheme '%s' is not valid", in.Scheme)
	}
	if err := r.place(&in); err != nil {
		return nil, err
	}
	if err := r.checkAddressType(&in); err != nil {
		return nil, err
	}
	same := r.balancers.Where(func(o *LoadBalancer) bool { return o.Name == in.Name })
	if len(same) > 0 {
		if !same[0].equal(&in) {
			return nil, query.Errorf("DuplicateLoadBalancerName",
				"A load balancer with the same name '%s' exists, but with different settings", in.Name)
		}
		return same[0], nil
	}
	if len(r.balancers.All()) >= r.opts.LoadBalancers {
		return nil, query.Errorf("TooManyLoadBalancers", "The maximum number of load balancers has been reached")
	}
	number := r.number()
	short := map[string]string{"network": "net", "application": "app", "gateway": "gwy"}[in.Type]
	in.Record, in.ARN = r.clock.Record(), r.arn("loadbalancer/"+short+"/"+in.Name+"/"+number)
	in.DNSName = in.Name + "-" + number + ".elb." + r.ec2.Name() + "." + suffix(r.ec2.Name())
	if in.Type == "application" {
		in.DNSName = in.Name + "-" + number + "." + r.ec2.Name() + ".elb." + suffix(r.ec2.Name())
	}
	in.Attributes = loadBalancerAttributes(in.Scheme)
	for i := range in.Mappings {
		r.attach(&in, &in.Mappings[i])
	}
	in.State = "active"
	if r.opts.Provisioning > 0 {
		in.State = "provisioning"
		r.clock.After(r.opts.Provisioning, func() { r.setState(in.ARN, "provisioning", "active") })
	}
	r.balancers.Put(&in)
	return &in, nil
}

func or(value, usual string) string {
	if value == "" {
		return usual
	}
	return value
}

func suffix(region string) string {
	if partition(region) == "aws-cn" {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// loadBalancerAttributes are those of a new one.
func loadBalancerAttributes(scheme string) map[string]string {
	return map[string]string{
		"deletion_protection.enabled": "false", "load_balancing.cross_zone.enabled": "false",
		"access_logs.s3.enabled": "false", "access_logs.s3.bucket": "", "access_logs.s3.prefix": "",
		"ipv6.deny_all_igw_traffic":  map[bool]string{true: "true", false: "false"}[scheme == "internal"],
		"zonal_shift.config.enabled": "false", "dns_record.client_routing_policy": "any_availability_zone",
		"secondary_ips.auto_assigned.per_subnet": "0",
	}
}

func (b *LoadBalancer) equal(o *LoadBalancer) bool {
	return b.Type == o.Type && b.Scheme == o.Scheme && b.IPAddressType == o.IPAddressType &&
		slices.Equal(slices.Sorted(slices.Values(b.SecurityGroups)), slices.Sorted(slices.Values(o.SecurityGroups))) &&
		maps.Equal(b.Tags, o.Tags) && slices.EqualFunc(b.sorted(), o.sorted(), func(x, y Mapping) bool {
		return x.SubnetID == y.SubnetID && x.AllocationID == y.AllocationID && x.ownPrivateIP == y.ownPrivateIP
	})
}

func (b *LoadBalancer) sorted() []Mapping {
	return slices.SortedFunc(slices.Values(b.Mappings), func(x, y Mapping) int { return strings.Compare(x.SubnetID, y.SubnetID) })
}

// place checks where a load balancer is to be, and completes it. Locked.
func (r *Region) place(in *LoadBalancer) error {
	if len(in.Mappings) == 0 {
		return query.Errorf("ValidationError", "At least one subnet must be specified") // unverified message
	}
	in.Mappings = slices.Clone(in.Mappings)
	zones := map[string]bool{}
	for i := range in.Mappings {
		m := &in.Mappings[i]
		found, err := r.ec2.Subnets([]string{m.SubnetID})
		if err != nil {
			return query.Errorf("SubnetNotFound", "The subnet ID '%s' does not exist", m.SubnetID)
		}
		m.Zone, m.ownPrivateIP = found[0].Zone, m.PrivateIP
		if zones[m.Zone] {
			return query.Errorf("InvalidConfigurationRequest",
				"A load balancer cannot be attached to multiple subnets in the same Availability Zone")
		}
		zones[m.Zone] = true
		if in.VPCID != "" && in.VPCID != found[0].VPCID { // unverified message
			return query.Errorf("InvalidConfigurationRequest", "All subnets must belong to the same VPC: '%s'", in.VPCID)
		}
		in.VPCID = found[0].VPCID
		if m.AllocationID == "" {
			continue
		}
		addresses, err := r.ec2.Addresses([]string{m.AllocationID})
		if err != nil {
			return query.Errorf("AllocationIdNotFound", "The allocation IDs '%s' do not exist", m.AllocationID)
		}
		m.publicIP = addresses[0].PublicIP
	}
	return r.checkGroups(in.VPCID, in.SecurityGroups)
}

// checkGroups checks the security groups of a load balancer. Locked.
func (r *Region) checkGroups(vpc string, ids []string) error {
	for _, id := range ids {
		found, err := r.ec2.SecurityGroups([]string{id})
		if err != nil || found[0].VPCID != vpc { // unverified message
			return query.Errorf("InvalidSecurityGroup", "One or more security groups are invalid: %s", id)
		}
	}
	return nil
}

// attach gives a load balancer its interface in a subnet. Locked.
func (r *Region) attach(b *LoadBalancer, m *Mapping) {
	n := ec2.NetworkInterface{
		SubnetID: m.SubnetID, Managed: true, RequesterID: "amazon-elb", Attachment: "attached", Groups: b.SecurityGroups,
		Description: "ELB " + b.ARN[strings.Index(b.ARN, "loadbalancer/")+len("loadbalancer/"):],
		Type:        map[string]string{"network": "network_load_balancer"}[b.Type], PublicIP: m.publicIP,
		NoGroups: len(b.SecurityGroups) == 0, Public: b.Scheme == "internet-facing",
	}
	if m.PrivateIP != "" {
		n.PrivateIPs = []string{m.PrivateIP}
	}
	added := r.ec2.AddInterface(n)
	m.interfaceID = added.ID
	r.ec2.SetIPv6(added.ID, b.IPAddressType == dualStack)
}

// setState lets a state follow another. Locked.
func (r *Region) setState(arn, from, to string) {
	if b := r.balancers.Get(arn); b != nil && (from == "" || b.State == from) {
		next := *b
		next.State = to
		r.balancers.Put(&next)
	}
}

// SetState puts a load balancer into a state.
func (r *Region) SetState(arn, state string) {
	r.lock()
	defer r.mu.Unlock()
	r.setState(arn, "", state)
}

// LoadBalancers are those with these ARNs, or these names, or all.
func (r *Region) LoadBalancers(arns, names []string) ([]*LoadBalancer, error) {
	r.lock()
	defer r.mu.Unlock()
	missing := notListed("LoadBalancerNotFound", "load balancers")
	if len(names) > 0 {
		return pick(&r.balancers, names, func(b *LoadBalancer) string { return b.Name }, missing)
	}
	return pick(&r.balancers, arns, (*LoadBalancer).Key, missing)
}

// change changes a load balancer.
func (r *Region) change(arn string, edit func(*LoadBalancer) error) (*LoadBalancer, error) {
	r.lock()
	defer r.mu.Unlock()
	b := r.balancers.Get(arn)
	if b == nil {
		return nil, notFound("LoadBalancerNotFound", "Load balancers", []string{arn})
	}
	next := *b
	if err := edit(&next); err != nil {
		return nil, err
	}
	r.balancers.Put(&next)
	return &next, nil
}

// SetAttributes changes attributes of a load balancer. It returns it.
func (r *Region) SetAttributes(arn string, attributes map[string]string) (*LoadBalancer, error) {
	return r.change(arn, func(b *LoadBalancer) error {
		for k := range attributes {
			if _, ok := b.Attributes[k]; !ok { // unverified message
				return query.Errorf("ValidationError", "Load balancer attribute key '%s' is not recognized", k)
			}
		}
		next := with(b.Attributes, attributes)
		if next["access_logs.s3.enabled"] == "true" && next["access_logs.s3.bucket"] == "" { // unverified message
			return query.Errorf("InvalidConfigurationRequest", "The access log bucket must be specified")
		}
		b.Attributes = next
		return nil
	})
}

// SetSecurityGroups replaces a load balancer's security groups.
func (r *Region) SetSecurityGroups(arn string, ids []string) (*LoadBalancer, error) {
	return r.change(arn, func(b *LoadBalancer) error {
		if b.Type == "network" && len(b.SecurityGroups) == 0 || len(ids) == 0 { // unverified message
			return query.Errorf("InvalidConfigurationRequest",
				"You cannot set security groups on a load balancer that was created without")
		}
		if err := r.checkGroups(b.VPCID, ids); err != nil {
			return err
		}
		b.SecurityGroups = slices.Clone(ids)
		for _, m := range b.Mappings {
			if err := r.ec2.ModifyInterface(m.interfaceID, nil, ids); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetSubnets replaces where a load balancer is, and its IP address type unless that is "". Nodes that stay keep their addresses.
func (r *Region) SetSubnets(arn string, mappings []Mapping, ipAddressType string) (*LoadBalancer, error) {
	return r.change(arn, func(b *LoadBalancer) error {
		old := b.Mappings
		b.Mappings, b.IPAddressType = mappings, or(ipAddressType, b.IPAddressType)
		if err := errors.Join(r.place(b), r.checkAddressType(b)); err != nil {
			return err
		}
		for i := range b.Mappings {
			m := &b.Mappings[i]
			if at := slices.IndexFunc(old, func(o Mapping) bool { return o.SubnetID == m.SubnetID }); at >= 0 {
				*m = old[at]
				r.ec2.SetIPv6(m.interfaceID, b.IPAddressType == dualStack)
				old = slices.Delete(slices.Clone(old), at, at+1)
			} else {
				r.attach(b, m)
			}
		}
		r.release(old)
		return nil
	})
}

// release lets the interfaces of nodes go, some time later. Locked.
func (r *Region) release(mappings []Mapping) {
	for _, m := range mappings {
		r.ec2.RemoveInterfaceAfter(r.opts.Release, m.interfaceID)
	}
}

// DeleteLoadBalancer deletes a load balancer with its listeners. One that is not there is fine.
func (r *Region) DeleteLoadBalancer(arn string) error {
	r.lock()
	defer r.mu.Unlock()
	b := r.balancers.Get(arn)
	if b == nil {
		return nil
	}
	if b.Attributes["deletion_protection.enabled"] == "true" {
		return query.Errorf("OperationNotPermitted", "Load balancer '%s' cannot be deleted because deletion protection is enabled",
			arn)
	}
	for _, l := range r.listeners.Where(func(l *Listener) bool { return l.LoadBalancerARN == arn }) {
		r.drop(l)
	}
	r.balancers.Remove(arn)
	r.release(b.Mappings)
	return nil
}
