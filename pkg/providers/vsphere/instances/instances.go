package instances

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/zones"
)

// few is how many machines that were not seen before are searched one by one: each takes some calls, and all a constant number.
const few = 4

// Instances are the machines of one vCenter. It may be used concurrently.
type Instances struct {
	c        *api.Client
	families []config.Family
	nodes    *config.Nodes
	zones    *zones.Reader
}

var _ cloud.Instances = (*Instances)(nil)

// New makes the instances of a vCenter.
func New(c *api.Client, cfg *config.Config, families []config.Family, z *zones.Reader) *Instances {
	return &Instances{c: c, families: families, nodes: &cfg.Nodes, zones: z}
}

// Find implements cloud.Instances.
func (i *Instances) Find(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	all, err := i.read(ctx, refs)
	out := make([]cloud.Result[*cloud.Instance], len(refs))
	for n, ref := range refs {
		if out[n].Err = err; err == nil {
			out[n].Value, out[n].Err = i.answer(ctx, all, ref)
		}
	}
	return out
}

// Get implements cloud.Instances: a read of the object that the UUID was seen at, else a search of the whole vCenter, whatever
// datacenters are set, as a machine may have been moved. What neither finds is believed only where the object is not there, and the
// vCenter shows other machines.
func (i *Instances) Get(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	uuid, _ := parse(ref.ProviderID) // empty where there is none, which is told below
	former, err := i.c.Recall(ctx, []string{uuid})
	if err != nil {
		return nil, err
	}
	if x := newIndex(former); len(x.uuid[uuid]) > 0 {
		return i.answer(ctx, x, ref)
	}
	found, err := i.c.Search(ctx, searches(ref))
	if err != nil {
		return nil, err
	}
	instance, err := i.answer(ctx, newIndex(found), ref)
	if !cloud.IsNotFound(err) {
		return instance, err
	}
	if len(former) > 0 {
		return nil, lost(&former[0], uuid)
	}
	return i.among(ctx, ref)
}

// among is the answer about a machine that no search finds, from all that the vCenter shows.
func (i *Instances) among(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	list := i.c.Identities
	if ref.ProviderID == "" { // its name is that which its tools tell
		list = i.c.Machines
	}
	all, err := list(ctx)
	if err != nil {
		return nil, err
	}
	x := newIndex(all)
	m, err := x.find(ref)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, i.absent(x, ref)
	}
	found, err := i.c.Read(ctx, []api.Ref{m.Ref})
	if err != nil {
		return nil, err
	}
	return i.answer(ctx, newIndex(found), ref)
}

// absent is "not found" about what is not in x, where that proves it: nothing is shown to one whose rights were taken, and a machine
// without its UUID, because its files cannot be read or its reader may not, may be any that no other UUID is known of.
func (i *Instances) absent(x *index, ref cloud.InstanceRef) error {
	if len(x.uuid) == 0 {
		return cloud.Errorf(cloud.KindUnavailable, "%s shows no machine at all, which proves nothing about one; has the user the rights System.View and System.Read where the machines are?", i.c.Place())
	}
	uuid, _ := parse(ref.ProviderID)
	for _, m := range x.unread {
		if other := i.c.UUIDOf(m.Ref); other == "" || other == uuid {
			return lost(m, uuid)
		}
	}
	return notFound(ref, i.c.Place())
}

// read reads the machines of refs: those that were seen before where they were, few others by searches, or after a look at all.
func (i *Instances) read(ctx context.Context, refs []cloud.InstanceRef) (*index, error) {
	var uuids []string
	for _, ref := range refs {
		if uuid, err := parse(ref.ProviderID); err == nil {
			uuids = append(uuids, uuid)
		}
	}
	found, err := i.c.Recall(ctx, uuids)
	if err != nil {
		return nil, err
	}
	seen := newIndex(found)
	var others []cloud.InstanceRef
	for _, ref := range refs {
		if m, err := seen.find(ref); m == nil && err == nil {
			others = append(others, ref)
		}
	}
	if len(others) > few {
		more, err := i.lookUp(ctx, others)
		return newIndex(append(found, more...)), err
	}
	var ways [][]api.Search
	for _, ref := range others {
		ways = append(ways, searches(ref))
	}
	more, err := i.c.Search(ctx, ways...)
	return newIndex(append(found, more...)), err
}

// lookUp finds the machines of refs among all, and reads those. Where several have what a ref names them by, all of these are among
// what it returns.
func (i *Instances) lookUp(ctx context.Context, refs []cloud.InstanceRef) ([]api.Machine, error) {
	all, err := i.c.Machines(ctx)
	if err != nil {
		return nil, err
	}
	x := newIndex(all)
	var wanted []api.Ref
	for _, ref := range refs {
		if m, _ := x.find(ref); m != nil { // errors come again with the answers
			wanted = append(wanted, m.Ref)
		}
	}
	whole, err := i.c.Read(ctx, wanted)
	there := newIndex(whole)
	all = slices.DeleteFunc(all, func(m api.Machine) bool { // what is gone meanwhile was not read whole
		return slices.Contains(wanted, m.Ref) && len(there.uuid[m.UUID]) == 0
	})
	return append(whole, all...), err
}

// searches are what finds the machine of a ref, the first one first.
func searches(ref cloud.InstanceRef) []api.Search {
	if ref.ProviderID != "" {
		uuid, err := parse(ref.ProviderID)
		if err != nil {
			return nil
		}
		return []api.Search{{UUID: uuid}}
	}
	var out []api.Search
	if uuid := strings.ToLower(ref.SystemUUID); isUUID(uuid) {
		out = append(out, api.Search{UUID: swapped(uuid)}, api.Search{UUID: uuid})
	}
	return append(out, api.Search{DNSName: strings.ToLower(ref.NodeName)}, api.Search{IP: ref.NodeName})
}

// answer is what is told of a ref's machine.
func (i *Instances) answer(ctx context.Context, all *index, ref cloud.InstanceRef) (*cloud.Instance, error) {
	m, err := all.find(ref)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, notFound(ref, i.c.Place())
	}
	out := &cloud.Instance{ProviderID: providerID(m.UUID), Name: m.Name, Type: typeOf(m), MachineIDs: []string{m.UUID, swapped(m.UUID)}, Scope: i.c.Place(),
		Shutdown: m.Off && !m.Lost}
	if out.Addresses, out.Unfit = nodeAddresses(m, i.families, i.nodes); out.Unfit != nil && !m.Off { // one that is off has no tools that tell
		return nil, out.Unfit
	}
	out.OtherIPs = otherIPs(m, out.Addresses)
	if i.zones.On() {
		if out.Zone, out.Region, err = i.where(ctx, m); err != nil { // a Node without a zone would get volumes that it cannot reach
			out.Unfit = err
		}
	}
	return out, nil
}

// where is a machine's zone and region: those of its host and of what that is in, else of its pool, else of itself and its folders.
func (i *Instances) where(ctx context.Context, m *api.Machine) (zone, region string, err error) {
	itself := []api.Ref{m.Ref}
	if m.Parent != nil {
		itself = append(itself, *m.Parent)
	}
	var ways [][]api.Ref
	for _, above := range []*api.Ref{m.Host, m.Pool} {
		if above != nil {
			ways = append(ways, []api.Ref{*above})
		}
	}
	if zone, region, err = i.zones.Find(ctx, append(ways, itself)...); err != nil || zone != "" {
		return zone, region, err
	}
	labels := i.zones.Labels()
	return "", "", cloud.Errorf(cloud.KindInvalid, "neither the host of machine %q nor what that is in, its pool or its folders have tags of both categories, %s and %s: tag them, or remove labels from vsphere.conf",
		m.Name, labels.Zone, labels.Region)
}

//go:embed guests.txt
var guests string

// guestNames are the names of operating systems by their IDs.
var guestNames = func() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(guests) {
		words := strings.Fields(line)
		for _, id := range words[1:] {
			out[id] = words[0]
		}
	}
	return out
}()

// typeOf is the instance type: its size, and the operating system that it was made for.
func typeOf(m *api.Machine) string {
	os := guestNames[m.GuestID]
	if os == "" {
		os = "unknown"
	}
	return fmt.Sprintf("vsphere-vm.cpu-%d.mem-%dgb.os-%s", m.CPUs, m.MemoryMB/1024, os)
}
