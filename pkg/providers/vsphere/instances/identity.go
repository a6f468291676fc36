package instances

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/api"
)

// Name is the value of --cloud-provider, and the scheme of provider IDs.
const Name = "vsphere"

const prefix = Name + "://"

// providerID is the provider ID of a machine.
func providerID(uuid string) string { return prefix + uuid }

// parse is the UUID in a provider ID, whose scheme may be missing, as the existing manager reads it.
func parse(id string) (string, error) {
	uuid := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(id, prefix)))
	if !isUUID(uuid) {
		return "", cloud.Errorf(cloud.KindInvalid, "provider ID %.100q is none of vSphere: it is %s and the UUID of a machine", id, prefix)
	}
	return uuid, nil
}

// Owns implements cloud.Provider.Owns: a provider ID may be without "vsphere://".
func Owns(n *corev1.Node) bool {
	scheme, _, ok := strings.Cut(n.Spec.ProviderID, "://")
	return !ok || scheme == Name
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, r := range s {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (r == '-') || !dash && !strings.ContainsRune("0123456789abcdef", r) {
			return false
		}
	}
	return true
}

// swapped is a UUID with the bytes of its first three groups in the other order, as guests may report it (SMBIOS 2.6, DSP0134).
func swapped(uuid string) string {
	if !isUUID(uuid) {
		return uuid
	}
	at := func(pairs ...int) (out string) {
		for _, i := range pairs {
			out += uuid[i : i+2]
		}
		return out
	}
	return at(6, 4, 2, 0) + "-" + at(11, 9) + "-" + at(16, 14) + uuid[18:]
}

// index is a set of machines by what refs name them by. Several machines of one name are a mistake that is told to who asks.
type index struct {
	uuid, host, ip map[string][]*api.Machine
	// unread are those without a UUID.
	unread []*api.Machine
}

func newIndex(all []api.Machine) *index {
	x := &index{uuid: map[string][]*api.Machine{}, host: map[string][]*api.Machine{}, ip: map[string][]*api.Machine{}}
	seen := map[api.Ref]bool{}
	for i := range all {
		m := &all[i]
		if seen[m.Ref] {
			continue
		}
		seen[m.Ref] = true
		if m.UUID == "" {
			x.unread = append(x.unread, m)
			continue
		}
		x.uuid[m.UUID] = append(x.uuid[m.UUID], m)
		if m.HostName != "" {
			name := strings.ToLower(m.HostName)
			x.host[name] = append(x.host[name], m)
		}
		for _, ip := range addressesOf(m) {
			x.ip[ip.String()] = append(x.ip[ip.String()], m)
		}
	}
	return x
}

// find is the machine of a ref, nil where there is none.
func (x *index) find(ref cloud.InstanceRef) (*api.Machine, error) {
	if ref.ProviderID != "" {
		uuid, err := parse(ref.ProviderID)
		if err != nil {
			return nil, err
		}
		return single("the UUID "+uuid, x.uuid[uuid])
	}
	reported := strings.ToLower(ref.SystemUUID)
	if !isUUID(reported) { // a serial number, or the ID of an operating system: it says nothing
		reported = ""
	}
	for _, uuid := range []string{swapped(reported), reported} {
		if uuid != "" && len(x.uuid[uuid]) > 0 {
			return single("the UUID "+uuid, x.uuid[uuid])
		}
	}
	name := strings.ToLower(ref.NodeName)
	m, err := single("the name "+ref.NodeName, x.host[name])
	if m == nil && err == nil {
		m, err = single("the address "+ref.NodeName, x.ip[name])
	}
	if m != nil && reported != "" {
		return nil, cloud.Errorf(cloud.KindConflict, "machine %q has the name of the Node, but the UUID %s, while the Node reports %s: it is another machine, maybe another cluster's; give the Node's machine a name of its own",
			m.Name, m.UUID, reported)
	}
	return m, err
}

// lost is the error about a machine that is there, but not with the UUID of the one that is looked for, which it may be.
func lost(m *api.Machine, uuid string) error {
	if m.UUID == "" {
		return cloud.Errorf(cloud.KindFailed, "the vCenter shows machine %q (%s) without its UUID, so that it may be the one that is looked for (%s): "+
			"see whether its host and its datastore are there and the user has System.Read on it, or remove it from the inventory", m.Name, m.Ref.Value, uuid)
	}
	return cloud.Errorf(cloud.KindConflict, "machine %q (%s) had the UUID %s and has %s now: give it back, or delete the Node by hand", m.Name, m.Ref.Value, uuid, m.UUID)
}

func single(what string, all []*api.Machine) (*api.Machine, error) {
	if len(all) == 0 {
		return nil, nil
	}
	if len(all) > 1 {
		return nil, cloud.Errorf(cloud.KindConflict, "%d machines have %s (%q and %q); a copy needs a UUID and a name of its own", len(all), what, all[0].Name, all[1].Name)
	}
	return all[0], nil
}

func notFound(ref cloud.InstanceRef, place string) error {
	what := ref.ProviderID
	if what == "" {
		what = "of Node " + ref.NodeName
	}
	return &cloud.Error{Kind: cloud.KindNotFound, Scope: place, Op: "find machine " + what, Err: fmt.Errorf("%s shows none", place)}
}
