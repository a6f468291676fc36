package ec2

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/store"
)

// State is an instance's.
type State string

// The states of an instance.
const (
	Pending      State = "pending"
	Running      State = "running"
	ShuttingDown State = "shutting-down"
	Terminated   State = "terminated"
	Stopping     State = "stopping"
	Stopped      State = "stopped"
)

// Code is the state as a number.
func (s State) Code() int {
	return map[State]int{Pending: 0, Running: 16, ShuttingDown: 32, Terminated: 48, Stopping: 64, Stopped: 80}[s]
}

// Instance is an instance.
type Instance struct {
	store.Record
	ID string
	// Type is "m5.large" by default, State is Running.
	Type  string
	State State
	// SubnetID is by default the first one of VPCID, the default VPC by default, in Zone. Zone and VPCID follow from it.
	SubnetID, VPCID, Zone string
	// ResourceName makes the private DNS name of the instance's ID in place of its address. PrivateDNSName is that name, if it is
	// to be another one.
	ResourceName   bool
	PrivateDNSName string
	// PublicDNSName follows from the public address by default.
	PublicDNSName string
	// Interfaces are its interfaces, sorted as they are to be listed. Without, it has one, with the address PrivateIP if that is
	// set, and PublicIP.
	Interfaces          []*NetworkInterface
	PrivateIP, PublicIP string
	Tags                map[string]string
	// NetworkNodes are where it is in the network, from top to bottom; none if its type has no topology.
	NetworkNodes   []string
	PlacementGroup string
	// Spot says that it is a Spot Instance.
	Spot bool
	// Launched is when it was launched, now by default.
	Launched time.Time
}

// Key is the ID.
func (i *Instance) Key() string { return i.ID }

func (i *Instance) clone() *Instance {
	out := *i
	out.Tags, out.Interfaces = maps.Clone(i.Tags), slices.Clone(i.Interfaces)
	return &out
}

// Primary is the interface at device index 0 of network card 0, nil if it has none, as when it is terminated.
func (i *Instance) Primary() *NetworkInterface {
	for _, n := range i.Interfaces {
		if n.DeviceIndex == 0 && n.NetworkCardIndex == 0 {
			return n
		}
	}
	return nil
}

// AddInstance adds an instance, and completes what is empty. A subnet that does not exist is a mistake, on which it panics.
// It returns the instance.
func (r *Region) AddInstance(in Instance) *Instance {
	r.lock()
	defer r.mu.Unlock()
	subnet := r.placeOf(in)
	in.Record, in.SubnetID, in.VPCID, in.Zone, in.Tags = r.clock.Record(), subnet.ID, subnet.VPCID, subnet.Zone, maps.Clone(in.Tags)
	if in.ID == "" {
		in.ID = r.newID("i")
	}
	if in.Type == "" {
		in.Type = "m5.large"
	}
	if in.State == "" {
		in.State = Running
	}
	if in.Launched.IsZero() {
		in.Launched = in.Created()
	}
	interfaces := in.Interfaces
	if len(interfaces) == 0 {
		one := &NetworkInterface{PublicIP: in.PublicIP}
		if in.PrivateIP != "" {
			one.PrivateIPs = []string{in.PrivateIP}
		}
		interfaces = []*NetworkInterface{one}
	}
	in.Interfaces = nil
	for _, n := range interfaces {
		next := *n
		next.InstanceID = in.ID
		if next.SubnetID == "" {
			next.SubnetID = subnet.ID
		}
		in.Interfaces = append(in.Interfaces, r.newInterface(next))
	}
	r.nameInstance(&in)
	r.instances.Put(&in)
	return &in
}

// placeOf is the subnet of a new instance. Locked.
func (r *Region) placeOf(in Instance) *Subnet {
	found := r.subnets.Where(func(s *Subnet) bool {
		switch {
		case in.SubnetID != "":
			return s.ID == in.SubnetID
		case in.VPCID != "" && s.VPCID != in.VPCID || in.Zone != "" && s.Zone != in.Zone:
			return false
		}
		return in.VPCID != "" || r.vpcs.Get(s.VPCID).Default
	})
	if len(found) == 0 {
		panic("no subnet for an instance: subnet \"" + in.SubnetID + "\", VPC \"" + in.VPCID + "\", zone \"" + in.Zone + "\"")
	}
	return found[0]
}

// nameInstance gives an instance the addresses and DNS names that its interfaces have. Locked.
func (r *Region) nameInstance(in *Instance) {
	if n := in.Primary(); n != nil {
		in.PrivateIP, in.PublicIP = n.PrivateIP(), n.PublicIP
	}
	if in.PrivateDNSName == "" && in.ResourceName {
		in.PrivateDNSName = in.ID + "." + r.internalDomain()
	}
	if in.PrivateDNSName == "" {
		in.PrivateDNSName = r.PrivateDNSName(in.PrivateIP)
	}
	if in.PublicDNSName == "" {
		in.PublicDNSName = r.PublicDNSName(in.PublicIP)
	}
}

func (r *Region) internalDomain() string {
	if r.name == "us-east-1" {
		return "ec2.internal"
	}
	return r.name + ".compute.internal"
}

// PrivateDNSName is the name of a private IPv4 address, "" for none.
func (r *Region) PrivateDNSName(ip string) string {
	if a, err := netip.ParseAddr(ip); err != nil || !a.Is4() {
		return ""
	}
	return "ip-" + strings.ReplaceAll(ip, ".", "-") + "." + r.internalDomain()
}

// PublicDNSName is the name of a public IPv4 address, "" for none.
func (r *Region) PublicDNSName(ip string) string {
	if a, err := netip.ParseAddr(ip); err != nil || !a.Is4() {
		return ""
	}
	domain := r.name + ".compute.amazonaws.com"
	if r.name == "us-east-1" {
		domain = "compute-1.amazonaws.com"
	}
	if strings.HasPrefix(r.name, "cn-") {
		domain += ".cn"
	}
	return "ec2-" + strings.ReplaceAll(ip, ".", "-") + "." + domain
}

func (r *Region) hiddenInstance(i *Instance) bool { return !r.visible(i) }

// Instances are those with these IDs, or all that can be seen.
func (r *Region) Instances(ids []string) ([]*Instance, error) {
	r.lock()
	defer r.mu.Unlock()
	return lookUp(&r.instances, "i", ids, r.hiddenInstance)
}

// SetTopology says whether the region knows DescribeInstanceTopology, as it does at first.
func (r *Region) SetTopology(known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.topology = known
}

// HasTopology reports what SetTopology has set.
func (r *Region) HasTopology() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.topology
}

// SetState puts an instance into a state at once, with what that means for its interfaces. An unknown instance stays so.
func (r *Region) SetState(id string, s State) {
	r.lock()
	defer r.mu.Unlock()
	r.setState(id, s)
}

// setState is SetState. Locked.
func (r *Region) setState(id string, s State) {
	instance := r.instances.Get(id)
	if instance == nil {
		return
	}
	next := instance.clone()
	next.State = s
	if s == Stopping || s == Stopped {
		next.PublicIP, next.PublicDNSName = "", ""
		for i, n := range next.Interfaces {
			n = n.clone()
			n.PublicIP = "" // unless it is an Elastic IP, which nothing here associates
			next.Interfaces[i] = n
			r.interfaces.Put(n)
		}
	}
	if s == Terminated {
		for _, n := range next.Interfaces {
			r.dropInterface(n)
		}
		next.Interfaces, next.SubnetID, next.VPCID = nil, "", ""
		next.PrivateIP, next.PublicIP, next.PrivateDNSName, next.PublicDNSName = "", "", "", ""
	}
	r.instances.Put(next)
	if s == Terminated {
		r.clock.After(r.opts.Retention, func() { r.instances.Remove(id) })
	}
}

// transit goes through a state to another. Locked.
func (r *Region) transit(id string, through, to State) {
	if r.opts.StateDelay > 0 {
		r.setState(id, through)
	}
	r.clock.After(r.opts.StateDelay, func() { r.setState(id, to) })
}

// Terminate terminates instances: they are shutting down, then terminated, and vanish some time later. A terminated instance has
// neither interfaces nor addresses any more.
func (r *Region) Terminate(ids ...string) {
	r.lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		r.transit(id, ShuttingDown, Terminated)
	}
}

// Stop stops instances: they lose their public addresses.
func (r *Region) Stop(ids ...string) {
	r.lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		r.transit(id, Stopping, Stopped)
	}
}

// Run makes instances run, from pending or stopped.
func (r *Region) Run(ids ...string) {
	r.lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		r.transit(id, Pending, Running)
	}
}

// Vanish makes instances unknown at once, as those are that were terminated long ago.
func (r *Region) Vanish(ids ...string) {
	r.lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if i := r.instances.Get(id); i != nil {
			for _, n := range i.Interfaces {
				r.dropInterface(n)
			}
			r.instances.Remove(id)
		}
	}
}
