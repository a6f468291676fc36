package api

import (
	"strings"

	"github.com/vmware/govmomi/vim25/types"
)

// Ref names an object of a vCenter.
type Ref = types.ManagedObjectReference

// Machine is what a vCenter says of a virtual machine. What it does not say is empty.
type Machine struct {
	Ref Ref
	// UUID is that of its BIOS, in lower case; empty where the vCenter cannot read the machine's files.
	UUID string
	Name string
	// HostName, NICs and GuestIP are what the tools in the machine say.
	HostName string
	NICs     []types.GuestNicInfo
	GuestIP  string
	CPUs     int32
	MemoryMB int32
	// GuestID is the operating system that it was made for.
	GuestID string
	Off     bool
	// Lost says that the vCenter has lost the machine: its host is gone, or its files are.
	Lost bool
	// Metadata is what cloud-init was given, with its encoding.
	Metadata, Encoding string
	// Host, Pool and Parent are what is above it; nil where that is not shown.
	Host, Pool, Parent *Ref
}

// The keys of a machine's settings with what cloud-init was given.
const (
	metadataKey = "guestinfo.metadata"
	encodingKey = "guestinfo.metadata.encoding"
)

// machineProperties are those that are read of the machines of Nodes. Of the settings, which are their guests' to fill, only two keys are.
var machineProperties = []string{
	"name", "config.uuid", "guest.hostName", "guest.net", "guest.ipAddress", "summary.config.numCpu", "summary.config.memorySizeMB",
	"summary.config.guestId", "runtime.powerState", "runtime.connectionState", "runtime.host", "resourcePool", "parent",
	`config.extraConfig["` + metadataKey + `"]`, `config.extraConfig["` + encodingKey + `"]`,
}

// identityProperties tell which machine one is.
var identityProperties = []string{"name", "config.uuid"}

// toolsProperties are what the tools in a machine tell.
var toolsProperties = []string{"guest.hostName", "guest.net", "guest.ipAddress"}

// machineOf makes a Machine of what was read.
func machineOf(o *types.ObjectContent) Machine {
	m := Machine{Ref: o.Obj}
	for i := range o.PropSet {
		m.take(o.PropSet[i].Name, o.PropSet[i].Val)
	}
	return m
}

func (m *Machine) take(name string, value any) {
	switch v := value.(type) {
	case string:
		if at := map[string]*string{"name": &m.Name, "guest.hostName": &m.HostName, "guest.ipAddress": &m.GuestIP, "config.uuid": &m.UUID,
			"summary.config.guestId": &m.GuestID}[name]; at != nil {
			*at = v
		}
		m.UUID = strings.ToLower(m.UUID)
	case int32:
		if at := map[string]*int32{"summary.config.numCpu": &m.CPUs, "summary.config.memorySizeMB": &m.MemoryMB}[name]; at != nil {
			*at = v
		}
	case types.ArrayOfGuestNicInfo:
		m.NICs = v.GuestNicInfo
	case types.VirtualMachinePowerState:
		m.Off = v != types.VirtualMachinePowerStatePoweredOn
	case types.VirtualMachineConnectionState:
		m.Lost = v != types.VirtualMachineConnectionStateConnected
	case Ref:
		if at := map[string]**Ref{"runtime.host": &m.Host, "resourcePool": &m.Pool, "parent": &m.Parent}[name]; at != nil {
			*at = &v
		}
	case types.OptionValue:
		m.setting(v)
	case types.ArrayOfOptionValue:
		for _, o := range v.OptionValue {
			if o != nil { // of a type that is not known here
				m.setting(*o.GetOptionValue())
			}
		}
	}
}

func (m *Machine) setting(o types.OptionValue) {
	text, _ := o.Value.(string)
	switch o.Key {
	case metadataKey:
		m.Metadata = text
	case encodingKey:
		m.Encoding = text
	}
}
