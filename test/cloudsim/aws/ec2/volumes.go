package ec2

import (
	"maps"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/store"
)

// Volume is an EBS volume.
type Volume struct {
	store.Record
	ID string
	// Zone is the name of its zone, the first one by default.
	Zone string
	// State is "available" by default, or "in-use" with InstanceID.
	State string
	// Type is "gp3" and Size 8 GiB by default.
	Type string
	Size int
	// InstanceID is the instance it is attached to, "" for none, at Device.
	InstanceID, Device string
	Tags               map[string]string
}

// Key is the ID.
func (v *Volume) Key() string { return v.ID }

// Address is an Elastic IP address.
type Address struct {
	store.Record
	// ID is the allocation's.
	ID, PublicIP string
	// InterfaceID is what it is associated with, "" for nothing.
	InterfaceID string
	Tags        map[string]string
}

// Key is the ID.
func (a *Address) Key() string { return a.ID }

// AddVolume adds a volume, and completes what is empty. It returns the volume.
func (r *Region) AddVolume(v Volume) *Volume {
	r.lock()
	defer r.mu.Unlock()
	if v.ID == "" {
		v.ID = r.newID("vol")
	}
	if v.Zone == "" {
		v.Zone = r.zones.All()[0].Name
	}
	if v.Type == "" {
		v.Type = "gp3"
	}
	if v.Size == 0 {
		v.Size = 8
	}
	if v.State == "" {
		v.State = "available"
		if v.InstanceID != "" {
			v.State = "in-use"
		}
	}
	v.Record, v.Tags = r.clock.Record(), maps.Clone(v.Tags)
	r.volumes.Put(&v)
	return &v
}

// RemoveVolume deletes a volume.
func (r *Region) RemoveVolume(id string) {
	r.lock()
	defer r.mu.Unlock()
	r.volumes.Remove(id)
}

// Volumes are those with these IDs, or all.
func (r *Region) Volumes(ids []string) ([]*Volume, error) {
	r.lock()
	defer r.mu.Unlock()
	return lookUp(&r.volumes, "vol", ids, nil)
}

// AddAddress adds an Elastic IP address, and completes what is empty. It returns the address.
func (r *Region) AddAddress(a Address) *Address {
	r.lock()
	defer r.mu.Unlock()
	if a.ID == "" {
		a.ID = r.newID("eipalloc")
	}
	if a.PublicIP == "" {
		a.PublicIP = r.publicIPs.take()
	}
	a.Record, a.Tags = r.clock.Record(), maps.Clone(a.Tags)
	r.addresses.Put(&a)
	return &a
}

// RemoveAddress gives an Elastic IP address back. One that is not there is fine.
func (r *Region) RemoveAddress(id string) {
	r.lock()
	defer r.mu.Unlock()
	r.addresses.Remove(id)
}

// Addresses are those with these allocation IDs, or all.
func (r *Region) Addresses(ids []string) ([]*Address, error) {
	r.lock()
	defer r.mu.Unlock()
	return lookUp(&r.addresses, "eipalloc", ids, nil)
}
