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
// datacenters are set, as a machine may have been moved. What neither finds is believed only where the vCenter shows other machines.
func (i *Instances) Get(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	uuid, _ := parse(ref.ProviderID) // empty where there is none, which is told below
	before, _ := i.c.Known(uuid)
	found, err := i.c.Recall(ctx, []string{uuid})
	if err == nil && len(found) == 0 {
		found, err = i.c.Search(ctx, searches(ref))
	}
	if err != nil {
		return nil, err
	}
	instance, err := i.answer(ctx, newIndex(found), ref)
	if !cloud.IsNotFound(err) {
		return instance, err
	}
	return i.among(ctx, ref, before)
}

// among is the answer about a machine that no search finds, from all that the vCenter shows; before is the object that the UUID was
// seen at, if any.
func (i *Instances) among(ctx context.Context, ref cloud.InstanceRef, before api.Ref) (*cloud.Instance, error) {
	list := i.c.Identities
	if ref.ProviderID == "" { // its name is that which its tools tell
		list = i.c.Machines
	}
	all, err := list(ctx)
	if err != nil {
		return nil, err
	}
	x := newIndex(all)
	if err := x.trusted(i.c.Place()); err != nil {
		return nil, err
	}
	m, err := x.find(ref)
	if err != nil {
		return nil, err
	}
	if n := slices.IndexFunc(all, func(m api.Machine) bool { return m.Ref == before }); m == nil && n >= 0 {
		uuid, _ := parse(ref.ProviderID) // it has been read before
		return nil, lost(&all[n], uuid)
	}
	if m == nil {
		return nil, notFound(ref, i.c.Place())
	}
	found, err := i.c.Recall(ctx, []string{m.UUID})
	if err != nil {
		return nil, err
	}
	return i.answer(ctx, newIndex(found), ref)
}

// read reads the machines of refs: those that were seen before where they were, few others by searches, or all.
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
	var others [][]api.Search
	for _, ref := range refs {
		if m, err := seen.find(ref); m == nil && err == nil {
			others = append(others, searches(ref))
		}
	}
	if len(others) > few {
		all, err := i.c.Machines(ctx)
		return newIndex(all), err
	}
	more, err := i.c.Search(ctx, others...)
	return newIndex(append(found, more...)), err
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
