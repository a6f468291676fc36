package ec2

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/store"
)

// NetworkInterface is an elastic network interface (ENI).
type NetworkInterface struct {
	store.Record
	ID, Description string
	// SubnetID is the instance's by default; VPCID and Zone follow from it.
	SubnetID, VPCID, Zone string
	// InstanceID is the instance it is attached to, "" for none, and the indexes are where.
	InstanceID                    string
	DeviceIndex, NetworkCardIndex int
	// Attachment is "attached" by default, or "attaching", "detaching", "detached".
	Attachment string
	// PrivateIPs are its IPv4 addresses, the primary one first. One is taken of the subnet when there is none, unless IPv6Only.
	PrivateIPs []string
	IPv6Only   bool
	// PublicIP is the primary address' public one. Where it is Public, one of Amazon's is taken when there is none.
	PublicIP                   string
	Public                     bool `json:",omitempty"` // as scenarios that were recorded without it are known by their JSON
	IPv6                       []string
	IPv4Prefixes, IPv6Prefixes []string
	// PrimaryIPv6 says that the first of IPv6 stays as long as the interface does.
	PrimaryIPv6 bool `json:",omitempty"`
	// Groups are IDs of security groups, the VPC's default one by default, unless it has NoGroups.
	Groups   []string
	NoGroups bool
	// NoSourceDestCheck says that it may forward what is not its own.
	NoSourceDestCheck bool
	// Type is "interface" by default. Managed says that a service made it; RequesterID is which.
	Type, RequesterID string
	Managed           bool
	MAC               string
	Tags              map[string]string
}

// Key is the ID.
func (n *NetworkInterface) Key() string { return n.ID }

func (n *NetworkInterface) clone() *NetworkInterface {
	out := *n
	out.Tags, out.Groups = maps.Clone(n.Tags), slices.Clone(n.Groups)
	return &out
}

// PrivateIP is the primary IPv4 address, "" if it has none.
func (n *NetworkInterface) PrivateIP() string {
	if len(n.PrivateIPs) == 0 {
		return ""
	}
	return n.PrivateIPs[0]
}

// Status is "in-use" for what is attached.
func (n *NetworkInterface) Status() string {
	if n.InstanceID == "" && !n.Managed {
		return "available"
	}
	return "in-use"
}

// AttachmentID is the attachment's ID.
func (n *NetworkInterface) AttachmentID() string {
	return "eni-attach-" + strings.TrimPrefix(n.ID, "eni-")
}

// AddInterface adds an interface, attached to InstanceID if that is set. ID is made when it is empty. It returns the interface.
func (r *Region) AddInterface(n NetworkInterface) *NetworkInterface {
	r.lock()
	defer r.mu.Unlock()
	instance := r.instances.Get(n.InstanceID)
	if instance != nil && n.SubnetID == "" {
		n.SubnetID = instance.SubnetID
	}
	out := r.newInterface(n)
	if instance != nil {
		next := instance.clone()
		next.Interfaces = append(next.Interfaces, out)
		r.instances.Put(next)
	}
	return out
}

// newInterface completes and stores an interface. Locked.
func (r *Region) newInterface(n NetworkInterface) *NetworkInterface {
	subnet := r.subnets.Get(n.SubnetID)
	if subnet == nil {
		panic("no subnet " + n.SubnetID)
	}
	pool := r.pools[subnet.ID]
	n.Record, n.VPCID, n.Zone, n.Tags = r.clock.Record(), subnet.VPCID, subnet.Zone, maps.Clone(n.Tags)
	if n.ID == "" {
		n.ID = r.newID("eni")
	}
	if len(n.PrivateIPs) == 0 && !n.IPv6Only {
		n.PrivateIPs = []string{pool.take()}
	}
	for _, ip := range n.PrivateIPs {
		if a := netip.MustParseAddr(ip); pool.prefix.Contains(a) {
			pool.used[a] = true
		}
	}
	if n.Public && n.PublicIP == "" {
		n.PublicIP = r.publicIPs.take()
	}
	if len(n.Groups) == 0 && !n.NoGroups {
		n.Groups = []string{r.defaultGroup(n.VPCID).ID}
	}
	if n.Type == "" {
		n.Type = "interface"
	}
	if n.Attachment == "" && n.InstanceID != "" {
		n.Attachment = "attached"
	}
	if n.MAC == "" {
		seq := n.Sequence()
		n.MAC = fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", byte(r.seed), byte(seq>>24), byte(seq>>16), byte(seq>>8),
			byte(seq))
	}
	r.interfaces.Put(&n)
	return &n
}

// putInterface replaces an interface, in its instance too. Locked.
func (r *Region) putInterface(n *NetworkInterface) {
	r.interfaces.Put(n)
	instance := r.instances.Get(n.InstanceID)
	if instance == nil {
		return
	}
	next := instance.clone()
	for i, old := range next.Interfaces {
		if old.ID == n.ID {
			next.Interfaces[i] = n
		}
	}
	r.instances.Put(next)
}

// dropInterface deletes an interface and frees its addresses. Locked.
func (r *Region) dropInterface(n *NetworkInterface) {
	r.interfaces.Remove(n.ID)
	if ip, err := netip.ParseAddr(n.PublicIP); err == nil {
		delete(r.publicIPs.used, ip)
	}
	if pool := r.pools[n.SubnetID]; pool != nil {
		for _, ip := range n.PrivateIPs {
			delete(pool.used, netip.MustParseAddr(ip))
		}
	}
}

// RemoveInterface deletes an interface, wherever it is attached.
func (r *Region) RemoveInterface(id string) { r.RemoveInterfaceAfter(0, id) }

// RemoveInterfaceAfter is RemoveInterface some time later: a service lets go of its interfaces when it likes.
func (r *Region) RemoveInterfaceAfter(d time.Duration, id string) {
	r.lock()
	defer r.mu.Unlock()
	r.clock.After(d, func() {
		n := r.interfaces.Get(id)
		if n == nil {
			return
		}
		r.dropInterface(n)
		if instance := r.instances.Get(n.InstanceID); instance != nil {
			next := instance.clone()
			next.Interfaces = slices.DeleteFunc(next.Interfaces, func(x *NetworkInterface) bool { return x.ID == id })
			r.instances.Put(next)
		}
	})
}

// Interfaces are those with these IDs, or all.
func (r *Region) Interfaces(ids []string) ([]*NetworkInterface, error) {
	r.lock()
	defer r.mu.Unlock()
	return lookUp(&r.interfaces, "eni", ids, nil)
}

// ModifyInterface changes an interface: forwards is whether it may forward what is not its own, nil to leave that, and groups are
// its security groups, none to leave them.
func (r *Region) ModifyInterface(id string, forwards *bool, groups []string) error {
	r.lock()
	defer r.mu.Unlock()
	n, err := get(&r.interfaces, "eni", id, nil)
	if err != nil {
		return err
	}
	if len(groups) > 0 {
		if _, err := lookUp(&r.groups, "sg", groups, nil); err != nil {
			return err
		}
	}
	next := n.clone()
	if forwards != nil {
		next.NoSourceDestCheck = *forwards
	}
	if len(groups) > 0 {
		next.Groups = slices.Clone(groups)
	}
	r.putInterface(next)
	return nil
}

// SetIPv6 gives an interface an address of the subnet's IPv6 range, or takes away all of IPv6 that it has.
func (r *Region) SetIPv6(id string, on bool) {
	r.lock()
	defer r.mu.Unlock()
	n := r.interfaces.Get(id)
	if n == nil || on == (len(n.IPv6) > 0) {
		return
	}
	next := n.clone()
	if next.IPv6 = nil; on {
		next.IPv6 = []string{inRange(r.subnets.Get(n.SubnetID).IPv6CIDR, n.Sequence())}
	}
	r.putInterface(next)
}

// inRange is an address of an IPv6 range by a number, the same each time.
func inRange(cidr string, number int64) string {
	a := netip.MustParsePrefix(cidr).Masked().Addr().As16()
	binary.BigEndian.PutUint64(a[8:], 0x100+uint64(number)) //nolint:gosec // not negative
	return netip.AddrFrom16(a).String()
}

// ModifyInstance is ModifyInterface by the instance, which must have one interface alone.
func (r *Region) ModifyInstance(id string, forwards *bool, groups []string) error {
	r.lock()
	instance, err := get(&r.instances, "i", id, r.hiddenInstance)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	n, err := instance.only()
	if err != nil {
		return err
	}
	return r.ModifyInterface(n.ID, forwards, groups)
}

// only is the instance's interface, where an operation takes no other instances than those with one.
func (i *Instance) only() (*NetworkInterface, error) {
	switch len(i.Interfaces) {
	case 0: // unverified: what EC2 says of a terminated instance
		return nil, query.Errorf("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be modified.", i.ID)
	case 1:
		return i.Interfaces[0], nil
	}
	return nil, query.Errorf("InvalidInstanceID",
		"There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", i.ID)
}
