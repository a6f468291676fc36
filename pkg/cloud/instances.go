package cloud

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Instances finds the virtual machines behind Nodes.
type Instances interface {
	// Find answers every ref, in their order, in as few API calls as the cloud allows.
	// KindNotFound in an answer means "not in what the batch read returned"; it becomes
	// evidence only after Get confirms it, which instancecache.Cache does.
	Find(ctx context.Context, refs []InstanceRef) []Result[*Instance]
	// Get reads one instance directly, never from a list of many or a cache. Its
	// KindNotFound is the cloud's own word about this instance.
	Get(ctx context.Context, ref InstanceRef) (*Instance, error)
}

// InstanceRef names a Node's instance. It is comparable.
type InstanceRef struct {
	// NodeName is the Node's name; the instance is looked up by it when ProviderID is empty.
	NodeName string
	// ProviderID is the Node's spec.providerID; empty before initialisation.
	ProviderID string
	// SystemUUID is what the machine's kubelet reports as its UUID, only where ProviderID is
	// empty. It is no proof by itself: it may be the hardware's own, and the kubelet may lie.
	SystemUUID string
	// NodeIP is the address that the machine's kubelet was given (--node-ip), the first of two, and
	// Hint the value of the Node's label Provider.HintLabel, where a cloud needs one to find the
	// machine; only where ProviderID is empty. Like SystemUUID they prove nothing.
	NodeIP netip.Addr
	Hint   string
}

// Instance is what the cloud says about one virtual machine. Callers must not change it:
// answers are shared.
type Instance struct {
	// ProviderID is the Node's spec.providerID, e.g. "openstack:///<uuid>".
	ProviderID string
	// Name is the cloud's name of the instance.
	Name string
	// Type is the instance type (flavor) as the label node.kubernetes.io/instance-type holds it.
	Type string
	// Zone and Region are the topology labels' values; empty where unknown.
	Zone, Region string
	// Addresses are the Node's status.addresses in their final order, without duplicates.
	Addresses []corev1.NodeAddress
	// OtherIPs are addresses of the machine that Addresses leave out, where a cloud chooses among them. One that the kubelet was
	// given (--node-ip) takes the place of the internal one of its family. Nil where Addresses have all.
	OtherIPs []netip.Addr
	// Labels are additional Node labels; nil for none.
	Labels map[string]string
	// MachineIDs are the UUIDs that the machine's kubelet may report (InstanceRef.SystemUUID): one that
	// does proves that the Node is this instance, and so the Scope. Nil where that proves nothing.
	MachineIDs []string
	// Marked is true when the instance carries this cluster's mark in the cloud, which proves the Scope too.
	Marked bool
	// PodCIDRs are what the cloud has given the instance for its pods, in the order in which the Node
	// is to have them; see Provider.GivesPodCIDRs.
	PodCIDRs []netip.Prefix
	// Scope names where the instance was found: the account or project and the endpoint or
	// region that answered. The same credentials of the same place give the same name; empty
	// where a cloud cannot tell. What another scope does not have proves nothing.
	Scope string
	// Unfit says why no Node must be initialized with what is told here, which lacks something; nil where it may be.
	Unfit error
	// Shutdown is true only when the cloud says that the instance is powered off and stays so.
	Shutdown bool
}

// IsMachineOf reports whether ref's machine itself says that it is the instance.
func (i *Instance) IsMachineOf(ref InstanceRef) bool {
	return ref.SystemUUID != "" && slices.ContainsFunc(i.MachineIDs, func(id string) bool { return strings.EqualFold(id, ref.SystemUUID) })
}
