package instances

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"go.yaml.in/yaml/v3"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/config"
)

// address is one of a machine, on a network.
type address struct {
	netip.Addr
	network string
}

// noNIC is the key of an interface that is none of the machine's hardware: of a bridge, a tunnel, a container.
const noNIC = -1

// addressesOf are a machine's addresses that others can reach, in the order in which the tools in it name them.
func addressesOf(m *api.Machine) []address {
	var out []address
	add := func(text, network string) {
		a, err := netip.ParseAddr(text)
		if err != nil || a.IsUnspecified() || a.IsLinkLocalMulticast() || a.IsLinkLocalUnicast() || a.IsLoopback() {
			return
		}
		out = append(out, address{a.Unmap().WithZone(""), network})
	}
	for _, nic := range m.NICs {
		if nic.DeviceConfigId == noNIC {
			continue
		}
		for _, text := range nic.IpAddress {
			add(text, nic.Network)
		}
	}
	if len(m.NICs) == 0 && m.GuestIP != "" { // tools of some systems tell one address alone
		add(m.GuestIP, "")
	}
	return out
}

// nodeAddresses are the addresses of a machine's Node: its host name, then of each family an internal one and an external one.
// That its tools tell nothing yet is no failure of the vCenter: the same question again would only keep others waiting.
func nodeAddresses(m *api.Machine, families []config.Family, n *config.Nodes) ([]corev1.NodeAddress, error) {
	if m.HostName == "" {
		return nil, cloud.Errorf(cloud.KindRetryAfter, "the tools in machine %q do not tell its host name; are they running?", m.Name)
	}
	all := addressesOf(m)
	if len(all) == 0 {
		return nil, cloud.Errorf(cloud.KindRetryAfter, "the tools in machine %q tell no address that others can reach; are they running, and has it a network?", m.Name)
	}
	if err := networksThere(m, n); err != nil {
		return nil, err
	}
	staticFirst(m, all)
	var l cloud.AddressList
	for _, f := range families {
		some := slices.DeleteFunc(slices.Clone(all), func(a address) bool { return !f.Has(a.Addr) })
		internal, external := pick(some, n)
		if internal == nil && external == nil {
			return nil, cloud.Errorf(cloud.KindInvalid, "machine %q has no address of the family %s that the settings of nodes in vsphere.conf leave; it has %s", m.Name, f, list(all))
		}
		if internal != nil {
			l.Add(corev1.NodeInternalIP, internal.String())
		}
		if external != nil {
			l.Add(corev1.NodeExternalIP, external.String())
		}
	}
	return append([]corev1.NodeAddress{{Type: corev1.NodeHostName, Address: m.HostName}}, l.List...), nil
}

// otherIPs are a machine's addresses beside those of its Node.
func otherIPs(m *api.Machine, node []corev1.NodeAddress) []netip.Addr {
	var out []netip.Addr
	for _, a := range addressesOf(m) {
		if !slices.ContainsFunc(node, func(n corev1.NodeAddress) bool { return n.Address == a.String() }) {
			out = append(out, a.Addr)
		}
	}
	return out
}

// networksThere fails where both networks have names and the machine is on neither.
func networksThere(m *api.Machine, n *config.Nodes) error {
	if n.InternalNetwork == "" || n.ExternalNetwork == "" {
		return nil
	}
	var names []string
	for _, nic := range m.NICs {
		if nic.DeviceConfigId == noNIC {
			continue
		}
		if strings.EqualFold(nic.Network, n.InternalNetwork) || strings.EqualFold(nic.Network, n.ExternalNetwork) {
			return nil
		}
		names = append(names, nic.Network)
	}
	return cloud.Errorf(cloud.KindInvalid, "machine %q is neither on network %s nor on %s, which vsphere.conf names; it is on %s", m.Name, n.InternalNetwork, n.ExternalNetwork, strings.Join(names, ", "))
}

// pick chooses by ranges, then by networks. Where neither finds any, the first address is both, as with the existing manager.
func pick(all []address, n *config.Nodes) (internal, external *address) {
	forInternal, forExternal := without(all, n.ExcludeInternal), without(all, n.ExcludeExternal)
	internal, external = choose(forInternal, n.Internal, n.InternalNetwork), choose(forExternal, n.External, n.ExternalNetwork)
	if internal == nil && external == nil {
		internal, external = first(forInternal, func(*address) bool { return true }), first(forExternal, func(*address) bool { return true })
	}
	return internal, external
}

func choose(all []address, ranges config.Subnets, network string) *address {
	for _, r := range ranges {
		if a := first(all, func(a *address) bool { return r.Contains(a.Addr) }); a != nil {
			return a
		}
	}
	if network == "" {
		return nil
	}
	return first(all, func(a *address) bool { return strings.EqualFold(a.network, network) })
}

func first(all []address, is func(*address) bool) *address {
	for i := range all {
		if is(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

func without(all []address, excluded config.Subnets) []address {
	return slices.DeleteFunc(slices.Clone(all), func(a address) bool { return excluded.Contains(a.Addr) })
}

func list(all []address) string {
	var out []string
	for _, a := range all {
		out = append(out, a.String())
	}
	return strings.Join(out, ", ")
}

// maxMetadata bounds what cloud-init was given, in bytes, as it is and unpacked: a guest can say what it likes there.
const maxMetadata = 64 << 10

// staticFirst moves the addresses to the front that cloud-init was given, in that order. What cannot be read there moves none.
func staticFirst(m *api.Machine, all []address) {
	static, err := staticAddresses(m)
	if err != nil || len(static) == 0 {
		return
	}
	rank := func(a address) int {
		if i := slices.Index(static, a.Addr); i >= 0 {
			return i
		}
		return len(static)
	}
	slices.SortStableFunc(all, func(a, b address) int { return rank(a) - rank(b) })
}

// staticAddresses are those of cloud-init's metadata (guestinfo), which has the configuration of the network as it is, or packed.
func staticAddresses(m *api.Machine) ([]netip.Addr, error) {
	if m.Encoding != "base64" || len(m.Metadata) > maxMetadata {
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(m.Metadata)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	outer, err := document(data)
	if err != nil {
		return nil, err
	}
	network, encoding := value(outer, "network"), value(outer, "network.encoding")
	if encoding != nil && encoding.Value != "" {
		text := ""
		if network != nil {
			text = network.Value
		}
		if data, err = unpack(encoding.Value, text); err != nil {
			return nil, err
		}
		if network, err = document(data); err != nil {
			return nil, err
		}
	}
	var out []netip.Addr
	for _, text := range listed(network) {
		text, _, _ = strings.Cut(text, "/")
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, a.Unmap())
		}
	}
	return out, nil
}

// document is a YAML document as it is written. Nothing is decoded into types: that takes time with the square of the keys.
func document(data []byte) (*yaml.Node, error) {
	n := &yaml.Node{}
	if err := yaml.Unmarshal(data, n); err != nil {
		return nil, err
	}
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	return n, nil
}

// values are those of a mapping's key, or of all keys.
func values(n *yaml.Node, key string) (out []*yaml.Node) {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if key == "" || n.Content[i].Value == key {
			out = append(out, n.Content[i+1])
		}
	}
	return out
}

// value is the only one of a mapping's key, else nil.
func value(n *yaml.Node, key string) *yaml.Node {
	if all := values(n, key); len(all) == 1 {
		return all[0]
	}
	return nil
}

// listed are the elements of ethernets.*.addresses, in the order of the document.
func listed(n *yaml.Node) (out []string) {
	for _, ethernets := range values(n, "ethernets") {
		for _, one := range values(ethernets, "") {
			for _, addresses := range values(one, "addresses") {
				for _, a := range addresses.Content {
					out = append(out, a.Value)
				}
			}
		}
	}
	return out
}

func unpack(encoding, text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || encoding == "base64" || encoding == "b64" {
		return data, err
	}
	if encoding != "gzip+base64" && encoding != "gz+b64" {
		return nil, fmt.Errorf("unknown encoding %.20q", encoding)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, maxMetadata))
}
