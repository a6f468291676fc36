package instances

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/supervisor"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// prefix begins provider IDs, as in the other mode: others expect it.
const prefix = "vsphere://"

// Owns implements cloud.Provider.Owns: a provider ID may be without its scheme, as the existing manager reads it.
func Owns(n *corev1.Node) bool {
	_, _, other := strings.Cut(strings.TrimPrefix(n.Spec.ProviderID, prefix), "://")
	return !other
}

// Resource is that of machines.
func Resource(version string) supervisor.Resource {
	return supervisor.Resource{Group: "vmoperator.vmware.com", Version: version, Kind: "VirtualMachine", Plural: "virtualmachines"}
}

// machine is what is read of a VirtualMachine.
type machine struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		BiosUUID   string `json:"biosUUID"`
		PowerState string `json:"powerState"`
		Network    struct {
			PrimaryIP4 string `json:"primaryIP4"`
			PrimaryIP6 string `json:"primaryIP6"`
			Interfaces []struct {
				IP struct {
					Addresses []struct {
						Address string `json:"address"`
					} `json:"addresses"`
				} `json:"ip"`
			} `json:"interfaces"`
		} `json:"network"`
	} `json:"status"`
}

// uuid is the machine's, "" before it has one.
func (m *machine) uuid() string { return strings.ToLower(m.Status.BiosUUID) }

// Instances are the machines of the namespace. It may be used concurrently.
type Instances struct {
	c        *supervisor.Client
	cluster  *config.Cluster
	resource supervisor.Resource
}

var _ cloud.Instances = (*Instances)(nil)

// New makes the instances of a guest cluster.
func New(c *supervisor.Client, cfg *config.Config) *Instances {
	return &Instances{c: c, cluster: &cfg.Cluster, resource: Resource(cfg.Supervisor.VMOperatorAPIVersion)}
}

// Find implements cloud.Instances.
func (i *Instances) Find(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	out := make([]cloud.Result[*cloud.Instance], len(refs))
	all, err := i.list(ctx)
	for n, ref := range refs {
		if out[n].Err = err; err == nil {
			out[n].Value, out[n].Err = i.answer(all, ref)
		}
	}
	return out
}

// Get implements cloud.Instances. A list is the only direct read by a UUID, and what says whether "not found" proves anything.
func (i *Instances) Get(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	if ref.ProviderID == "" {
		obj, err := i.c.Get(ctx, i.resource, ref.NodeName)
		if err == nil {
			m := &machine{}
			if err = supervisor.Decode(obj, m); err == nil {
				return i.instance(m, ref)
			}
		}
		if !cloud.IsNotFound(err) {
			return nil, err
		}
	}
	all, err := i.list(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, cloud.Errorf(cloud.KindUnavailable, "%s has no VirtualMachine at all, which proves nothing about one; is it the guest cluster's namespace?", i.c.Place())
	}
	return i.answer(all, ref)
}

// list reads all machines.
func (i *Instances) list(ctx context.Context) ([]*machine, error) {
	all, err := i.c.List(ctx, i.resource, nil)
	if err != nil {
		return nil, err
	}
	out := make([]*machine, len(all))
	for n := range all {
		out[n] = &machine{}
		if err := supervisor.Decode(&all[n], out[n]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// answer is what is told of a ref's machine.
func (i *Instances) answer(all []*machine, ref cloud.InstanceRef) (*cloud.Instance, error) {
	is, what := func(m *machine) bool { return m.Name == ref.NodeName }, "of the name "+ref.NodeName
	if ref.ProviderID != "" {
		uuid, err := parse(ref.ProviderID)
		if err != nil {
			return nil, err
		}
		is, what = func(m *machine) bool { return m.uuid() == uuid }, "with the UUID "+uuid
	}
	n := slices.IndexFunc(all, is)
	if k := slices.IndexFunc(all, func(m *machine) bool { return m.Name == ref.NodeName && m.uuid() == "" }); n < 0 && k >= 0 {
		return i.instance(all[k], ref) // its status was lost, as after a restore: it may be the one
	}
	if n < 0 {
		return nil, &cloud.Error{Kind: cloud.KindNotFound, Scope: i.c.Place(), Op: "find machine", Err: fmt.Errorf("%s has no VirtualMachine %s", i.c.Place(), what)}
	}
	if k := slices.IndexFunc(all[n+1:], is); k >= 0 {
		return nil, cloud.Errorf(cloud.KindConflict, "there are two VirtualMachines %s in %s: %s and %s; a copy needs a UUID of its own", what, i.c.Place(), all[n].Name, all[n+1+k].Name)
	}
	return i.instance(all[n], ref)
}

// instance is what is told of a machine.
func (i *Instances) instance(m *machine, ref cloud.InstanceRef) (*cloud.Instance, error) {
	uuid := m.uuid()
	if !text.IsUUID(uuid) {
		return nil, cloud.Errorf(cloud.KindRetryAfter, "%s has no status.biosUUID yet, but %q; it gets one when it is made in the vCenter", i.c.Name(i.resource, m.Name), text.Clip(uuid, 50))
	}
	out := &cloud.Instance{ProviderID: prefix + uuid, Name: m.Name, Zone: m.Labels[corev1.LabelTopologyZone], Addresses: addresses(m, i.cluster),
		MachineIDs: []string{uuid, swapped(uuid)}, Scope: i.c.Place(), Shutdown: m.Status.PowerState == "PoweredOff"}
	if ref.ProviderID != "" {
		return out, nil
	}
	if ref.SystemUUID != "" && !out.IsMachineOf(ref) {
		return nil, cloud.Errorf(cloud.KindConflict, "%s has the name of the Node, but the UUID %s, while the Node reports %s: it is another machine", i.c.Name(i.resource, m.Name), uuid, text.Clip(ref.SystemUUID, 50))
	}
	if len(out.Addresses) == 0 && !out.Shutdown { // a Node would be initialized without
		return nil, cloud.Errorf(cloud.KindRetryAfter, "%s has no address of the family %s in status.network yet; are the tools in it running?", i.c.Name(i.resource, m.Name), i.cluster.ClusterIPFamily)
	}
	return out, nil
}

// parse is the UUID in a provider ID.
func parse(id string) (string, error) {
	uuid := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(id, prefix)))
	if !text.IsUUID(uuid) {
		return "", cloud.Errorf(cloud.KindInvalid, "provider ID %q is none of vSphere: it is %s and the UUID of a machine", text.Clip(id, 100), prefix)
	}
	return uuid, nil
}

// swapped is a UUID with the bytes of its first three groups in the other order, as guests may report it (SMBIOS 2.6, DSP0134).
func swapped(u string) string {
	return u[6:8] + u[4:6] + u[2:4] + u[0:2] + "-" + u[11:13] + u[9:11] + "-" + u[16:18] + u[14:16] + u[18:]
}
