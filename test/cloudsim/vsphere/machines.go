package vsphere

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Spec describes a machine.
type Spec struct {
	Name, UUID string
	// Host, Pool and Folder are where it is, by their inventory paths: the first host of the first cluster, its cluster's pool and
	// its datacenter's folder without.
	Host   string `json:",omitempty"`
	Pool   string `json:",omitempty"`
	Folder string `json:",omitempty"`
	// HostName, NICs and Address are what the tools in it tell.
	HostName string
	NICs     []NIC  `json:",omitempty"`
	Address  string `json:",omitempty"`
	// CPUs, MemoryMB and GuestID are what it was made with.
	CPUs     int32             `json:",omitempty"`
	MemoryMB int32             `json:",omitempty"`
	GuestID  string            `json:",omitempty"`
	Settings map[string]string `json:",omitempty"`
	// State is on, off or suspended; on without. Connection is that of its host, connected without.
	State, Connection string `json:",omitempty"`
}

// NIC is a network interface that tools tell of. Key is -1 where it is none of the machine's hardware.
type NIC struct {
	Network string
	Key     int32    `json:",omitempty"`
	IPs     []string `json:",omitempty"`
}

// Change is what becomes of a machine. Empty fields stay.
type Change struct {
	// State is on, off, suspended or deleted. Silent has its tools tell nothing any more.
	State      string `json:",omitempty"`
	Silent     bool   `json:",omitempty"`
	Connection string `json:",omitempty"`
	UUID       string `json:",omitempty"`
	Name       string `json:",omitempty"`
	HostName   string `json:",omitempty"`
	NICs       []NIC  `json:",omitempty"`
	CPUs       int32  `json:",omitempty"`
	// Host is where it is moved to, of this datacenter or another one; Folder another one of its datacenter.
	Host, Folder string `json:",omitempty"`
}

// Place makes a machine as it is described.
func (v *VCenter) Place(ctx context.Context, s *Spec) error {
	finder := find.NewFinder(v.client.Client)
	at, err := v.where(ctx, finder, cmp.Or(s.Host, "/DC0/host/DC0_C0/DC0_C0_H0"), s.Pool, s.Folder)
	if err != nil {
		return err
	}
	task, err := object.NewFolder(v.client.Client, *at.Folder).CreateVM(ctx, types.VirtualMachineConfigSpec{
		Name: s.Name, Uuid: s.UUID, GuestId: cmp.Or(s.GuestID, "ubuntu64Guest"), NumCPUs: cmp.Or(s.CPUs, 2), MemoryMB: int64(cmp.Or(s.MemoryMB, 4096)),
		Files: &types.VirtualMachineFileInfo{VmPathName: "[LocalDS_0]"},
	}, object.NewResourcePool(v.client.Client, *at.Pool), object.NewHostSystem(v.client.Client, *at.Host))
	if err != nil {
		return err
	}
	made, err := task.WaitForResult(ctx, nil)
	if err != nil {
		return err
	}
	ref, ok := made.Result.(types.ManagedObjectReference)
	if !ok {
		return errors.New("what was made is no machine")
	}
	if err := v.power(ctx, object.NewVirtualMachine(v.client.Client, ref), "on"); err != nil {
		return err
	}
	if err := v.set(ref, func(vm *simulator.VirtualMachine) {
		vm.Guest.HostName, vm.Guest.Net, vm.Guest.IpAddress = s.HostName, guestNICs(s.NICs), s.Address
		for _, key := range slices.Sorted(maps.Keys(s.Settings)) {
			vm.Config.ExtraConfig = append(vm.Config.ExtraConfig, &types.OptionValue{Key: key, Value: s.Settings[key]})
		}
	}); err != nil {
		return err
	}
	return v.Change(ctx, s.UUID, &Change{State: s.State, Connection: s.Connection})
}

// where are references of a place.
func (v *VCenter) where(ctx context.Context, finder *find.Finder, host, pool, folder string) (*types.VirtualMachineRelocateSpec, error) {
	dc, _, ok := strings.Cut(host, "/host/")
	if !ok {
		return nil, fmt.Errorf("%s is no path of a host", host)
	}
	h, err := finder.HostSystem(ctx, host)
	if err != nil {
		return nil, err
	}
	p, err := finder.ResourcePool(ctx, cmp.Or(pool, path.Dir(host)+"/Resources"))
	if err != nil {
		return nil, err
	}
	f, err := finder.Folder(ctx, cmp.Or(folder, dc+"/vm"))
	if err != nil {
		return nil, err
	}
	at := [3]types.ManagedObjectReference{h.Reference(), p.Reference(), f.Reference()}
	return &types.VirtualMachineRelocateSpec{Host: &at[0], Pool: &at[1], Folder: &at[2]}, nil
}

func guestNICs(all []NIC) []types.GuestNicInfo {
	var out []types.GuestNicInfo
	for i, n := range all {
		out = append(out, types.GuestNicInfo{Network: n.Network, DeviceConfigId: cmp.Or(n.Key, int32(4000+i)), IpAddress: n.IPs})
	}
	return out
}

// set changes a machine past the API.
func (v *VCenter) set(ref types.ManagedObjectReference, do func(*simulator.VirtualMachine)) error {
	vm, ok := v.model.Map().Get(ref).(*simulator.VirtualMachine)
	if !ok {
		return fmt.Errorf("%s is no machine", ref)
	}
	v.model.Service.Context.WithLock(vm, func() { do(vm) })
	return nil
}

// Change has something become of a machine.
func (v *VCenter) Change(ctx context.Context, uuid string, c *Change) error {
	vm, err := v.find(ctx, uuid)
	if err != nil || vm == nil {
		return errors.Join(err, fmt.Errorf("machine %s: there is none", uuid))
	}
	if c.State == "deleted" {
		return remove(ctx, vm)
	}
	if c.Host != "" || c.Folder != "" {
		if err := v.move(ctx, vm, c.Host, c.Folder); err != nil {
			return err
		}
	}
	if err := v.power(ctx, vm, c.State); err != nil {
		return err
	}
	return v.set(vm.Reference(), func(m *simulator.VirtualMachine) {
		if c.Silent {
			m.Guest.HostName, m.Guest.Net, m.Guest.IpAddress = "", nil, ""
		}
		if c.Connection != "" {
			m.Runtime.ConnectionState = types.VirtualMachineConnectionState(c.Connection)
			m.Summary.Runtime.ConnectionState = m.Runtime.ConnectionState
		}
		if c.UUID != "" {
			m.Config.Uuid, m.Summary.Config.Uuid = c.UUID, c.UUID
		}
		if c.CPUs != 0 {
			m.Config.Hardware.NumCPU, m.Summary.Config.NumCpu = c.CPUs, c.CPUs
		}
		if c.NICs != nil {
			m.Guest.Net = guestNICs(c.NICs)
		}
		m.Name, m.Guest.HostName = cmp.Or(c.Name, m.Name), cmp.Or(c.HostName, m.Guest.HostName)
	})
}

func (v *VCenter) move(ctx context.Context, vm *object.VirtualMachine, host, folder string) error {
	finder := find.NewFinder(v.client.Client)
	spec := &types.VirtualMachineRelocateSpec{}
	if host != "" {
		var err error
		if spec, err = v.where(ctx, finder, host, "", folder); err != nil {
			return err
		}
	} else {
		f, err := finder.Folder(ctx, folder)
		if err != nil {
			return err
		}
		ref := f.Reference()
		spec.Folder = &ref
	}
	task, err := vm.Relocate(ctx, *spec, types.VirtualMachineMovePriorityDefaultPriority)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

func (v *VCenter) power(ctx context.Context, vm *object.VirtualMachine, state string) error {
	act := map[string]func(context.Context) (*object.Task, error){"on": vm.PowerOn, "off": vm.PowerOff, "suspended": vm.Suspend}[state]
	if act == nil {
		return nil
	}
	task, err := act(ctx)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}
