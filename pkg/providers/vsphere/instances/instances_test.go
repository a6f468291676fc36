package instances

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/config"
)

const uuid, other = "422e4956-ad22-1139-6d72-59cc8f26bc90", "11111111-2222-3333-4444-555555555555"

func nic(network string, addresses ...string) types.GuestNicInfo {
	return types.GuestNicInfo{Network: network, DeviceConfigId: 4000, IpAddress: addresses}
}

func text(all []corev1.NodeAddress) string {
	var out []string
	for _, a := range all {
		out = append(out, string(a.Type)[:4]+" "+a.Address)
	}
	return strings.Join(out, ", ")
}

func subnets(all ...string) (out config.Subnets) {
	for _, s := range all {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func packed(encoding, network string) string {
	switch encoding {
	case "":
		return base64.StdEncoding.EncodeToString([]byte("network:\n  " + strings.ReplaceAll(network, "\n", "\n  ")))
	case "base64", "b64":
		network = base64.StdEncoding.EncodeToString([]byte(network))
	default:
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(network)) // into memory
		_ = w.Close()
		network = base64.StdEncoding.EncodeToString(b.Bytes())
	}
	return base64.StdEncoding.EncodeToString([]byte("network.encoding: " + encoding + "\nnetwork: " + network + "\n"))
}

func TestAddresses(t *testing.T) {
	four := []config.Family{config.IPv4}
	two := []types.GuestNicInfo{nic("inside", "10.0.0.5", "fd00::5"), nic("outside", "192.0.2.5", "2001:db8::5")}
	const network = "version: 2\nethernets:\n  b:\n    addresses: [192.0.2.5/24]\n  a:\n    addresses:\n    - 10.0.0.5/24\n"
	for name, tt := range map[string]struct {
		nics     []types.GuestNicInfo
		guest    string
		families []config.Family
		nodes    config.Nodes
		metadata string
		want     string
		err      string
	}{
		"complaint 270: the first is both":    {nics: two, want: "Host n, Inte 10.0.0.5, Exte 10.0.0.5"},
		"complaints 302, 1129: a family each": {nics: two, families: []config.Family{config.IPv6, config.IPv4}, want: "Host n, Inte fd00::5, Exte fd00::5, Inte 10.0.0.5, Exte 10.0.0.5"},
		"by range":                            {nics: two, nodes: config.Nodes{Internal: subnets("192.0.2.0/24"), External: subnets("198.51.100.0/24", "10.0.0.0/8")}, want: "Host n, Inte 192.0.2.5, Exte 10.0.0.5"},
		"by range, one side":                  {nics: two, nodes: config.Nodes{Internal: subnets("10.0.0.0/8")}, want: "Host n, Inte 10.0.0.5"},
		"by a range that nothing is in":       {nics: two, nodes: config.Nodes{Internal: subnets("172.16.0.0/16")}, want: "Host n, Inte 10.0.0.5, Exte 10.0.0.5"},
		"by network":                          {nics: two, nodes: config.Nodes{InternalNetwork: "OUTSIDE", ExternalNetwork: "inside"}, want: "Host n, Inte 192.0.2.5, Exte 10.0.0.5"},
		"a range goes before a network":       {nics: two, nodes: config.Nodes{Internal: subnets("10.0.0.0/8"), InternalNetwork: "outside"}, want: "Host n, Inte 10.0.0.5"},
		"without some":                        {nics: two, nodes: config.Nodes{ExcludeInternal: subnets("10.0.0.0/8")}, want: "Host n, Inte 192.0.2.5, Exte 10.0.0.5"},
		"on no network that has a name":       {nics: two, nodes: config.Nodes{InternalNetwork: "x", ExternalNetwork: "y"}, err: "neither on network x nor on y, which vsphere.conf names; it is on inside, outside"},
		"all left out":                        {nics: two, nodes: config.Nodes{ExcludeInternal: subnets("0.0.0.0/0"), ExcludeExternal: subnets("0.0.0.0/0")}, err: "has no address of the family ipv4"},
		"none of a family":                    {nics: two[:1], families: []config.Family{config.IPv4, config.IPv6}, nodes: config.Nodes{ExcludeInternal: subnets("fd00::/8"), ExcludeExternal: subnets("fd00::/8")}, err: "family ipv6"},
		"what nobody reaches":                 {nics: []types.GuestNicInfo{nic("a", "127.0.0.1", "169.254.1.1", "fe80::1", "0.0.0.0", "x", "10.0.0.5")}, want: "Host n, Inte 10.0.0.5, Exte 10.0.0.5"},
		"what is no hardware":                 {nics: []types.GuestNicInfo{{Network: "docker0", DeviceConfigId: -1, IpAddress: []string{"172.17.0.1"}}, two[0]}, want: "Host n, Inte 10.0.0.5, Exte 10.0.0.5"},
		"complaint 390: one address alone":    {guest: "10.0.0.5", want: "Host n, Inte 10.0.0.5, Exte 10.0.0.5"},
		"complaints 576, 338: nothing":        {err: "the tools in machine \"m\" tell no address"},
		"static ones first":                   {nics: two, metadata: packed("", network), want: "Host n, Inte 192.0.2.5, Exte 192.0.2.5"},
		"static ones first, base64":           {nics: two, metadata: packed("base64", network), want: "Host n, Inte 192.0.2.5, Exte 192.0.2.5"},
		"static ones first, gzip":             {nics: two, metadata: packed("gz+b64", network), want: "Host n, Inte 192.0.2.5, Exte 192.0.2.5"},
		"static ones that cannot be read":     {nics: two, metadata: "!", want: "Host n, Inte 10.0.0.5, Exte 10.0.0.5"},
		"static ones in an unknown packing":   {nics: two, metadata: packed("b64", "!"), want: "Host n, Inte 10.0.0.5, Exte 10.0.0.5"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.families == nil {
				tt.families = four
			}
			m := &api.Machine{Name: "m", HostName: "n", NICs: tt.nics, GuestIP: tt.guest, Metadata: tt.metadata, Encoding: "base64"}
			got, err := nodeAddresses(m, tt.families, &tt.nodes)
			if text(got) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s, %v", text(got), err)
			}
		})
	}
	both := &api.Machine{Name: "m", HostName: "n", NICs: two}
	if got, err := nodeAddresses(both, four, &config.Nodes{}); err != nil || fmt.Sprint(otherIPs(both, got)) != "[fd00::5 192.0.2.5 2001:db8::5]" {
		t.Errorf("others than %s: %s, %v", text(got), otherIPs(both, got), err)
	}
	if _, err := nodeAddresses(&api.Machine{Name: "m", NICs: two}, four, &config.Nodes{}); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Error(err)
	}
}

// A guest can say what it likes in its metadata: it costs next to nothing, and changes nothing.
func TestHostileMetadata(t *testing.T) {
	for name, text := range map[string]string{"keys without values": "{" + strings.Repeat("? ,", 15_000) + "}", "references": strings.Repeat("a: &a [*a]\n", 4000),
		"depth": strings.Repeat("[", 40_000), "size": strings.Repeat("x", 1<<20), "keys": "{" + strings.Repeat("network: {}, ", 3000) + "}"} {
		m := &api.Machine{Metadata: base64.StdEncoding.EncodeToString([]byte(text)), Encoding: "base64"}
		found := 0
		allocs := testing.AllocsPerRun(1, func() {
			all, _ := staticAddresses(m) // an error is as good
			found += len(all)
		})
		if found != 0 || allocs > 500_000 { // as many as it has bytes, not their square
			t.Errorf("%s: %d addresses, %.0f allocations", name, found, allocs)
		}
	}
}

func TestIdentity(t *testing.T) {
	machine := func(name, uuid, host string, nics ...types.GuestNicInfo) api.Machine {
		return api.Machine{Ref: api.Ref{Type: "VirtualMachine", Value: "vm-" + name}, Name: name, UUID: uuid, HostName: host, NICs: nics}
	}
	all := newIndex([]api.Machine{
		machine("a", uuid, "Node-A.example.org"), machine("b", other, "node-b", nic("n", "10.0.0.7")),
		machine("copy-1", "c0000000-0000-0000-0000-000000000000", "twin"), machine("copy-2", "c0000000-0000-0000-0000-000000000000", "twin"),
		machine("unread", "", ""), machine("b", other, "node-b", nic("n", "10.0.0.7")),
	})
	for name, tt := range map[string]struct {
		ref  cloud.InstanceRef
		want string
		err  string
	}{
		"by provider ID":                      {ref: cloud.InstanceRef{ProviderID: "vsphere://" + strings.ToUpper(uuid)}, want: "a"},
		"without the scheme":                  {ref: cloud.InstanceRef{ProviderID: uuid}, want: "a"},
		"complaint 521: no UUID":              {ref: cloud.InstanceRef{ProviderID: "vsphere://"}, err: "is none of vSphere"},
		"another cloud's":                     {ref: cloud.InstanceRef{ProviderID: "aws:///x/i-1"}, err: "is none of vSphere"},
		"unknown":                             {ref: cloud.InstanceRef{ProviderID: "vsphere://" + strings.Replace(uuid, "4", "5", 1)}},
		"by the UUID that it reports":         {ref: cloud.InstanceRef{NodeName: "any", SystemUUID: strings.ToUpper(uuid)}, want: "a"},
		"by that in the other order":          {ref: cloud.InstanceRef{NodeName: "any", SystemUUID: "56492e42-22ad-3911-6d72-59cc8f26bc90"}, want: "a"},
		"complaint 484: by name in any case":  {ref: cloud.InstanceRef{NodeName: "node-a.example.org"}, want: "a"},
		"by address":                          {ref: cloud.InstanceRef{NodeName: "10.0.0.7"}, want: "b"},
		"by the beginning of a name":          {ref: cloud.InstanceRef{NodeName: "node"}},
		"complaints 661, 87: another machine": {ref: cloud.InstanceRef{NodeName: "node-b", SystemUUID: "99999999-2222-3333-4444-555555555555"}, err: "it is another machine, maybe another cluster's"},
		"two of one name":                     {ref: cloud.InstanceRef{NodeName: "twin"}, err: "2 machines have the name twin"},
		"two of one UUID":                     {ref: cloud.InstanceRef{ProviderID: "vsphere://c0000000-0000-0000-0000-000000000000"}, err: "2 machines have the UUID"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := all.find(tt.ref)
			if m == nil && tt.want != "" || m != nil && m.Name != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v, %v", m, err)
			}
			if cloud.IsNotFound(err) {
				t.Errorf("%v would have the Node deleted", err)
			}
		})
	}
	if swapped(swapped(uuid)) != uuid || swapped("x") != "x" {
		t.Error("swapped twice it is another one")
	}
}

func TestTypes(t *testing.T) {
	for id, want := range map[string]string{"ubuntu64Guest": "ubuntu", "rhel9_64Guest": "rhel9", "centos64Guest": "centos64", "x": "unknown", "": "unknown"} {
		if got := typeOf(&api.Machine{CPUs: 4, MemoryMB: 8191, GuestID: id}); got != fmt.Sprintf("vsphere-vm.cpu-4.mem-7gb.os-%s", want) {
			t.Error(got)
		}
	}
}

// A Node with a bare UUID is served, as by the existing manager; one of another cloud is left alone.
func TestOwns(t *testing.T) {
	for id, want := range map[string]bool{
		"": true, "vsphere://42000000-0000-0000-0000-000000000001": true, "42000000-0000-0000-0000-000000000001": true, "vsphere://": true,
		"aws:///eu-central-1a/i-0123456789abcdef0": false, "vsphere-paravirtual://x": false,
	} {
		if got := Owns(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}}); got != want {
			t.Errorf("%q: %t", id, got)
		}
	}
}

// A kubelet that reports something else than a UUID, such as a serial number, says nothing about its machine: its name counts.
func TestWhatIsNoUUIDSaysNothing(t *testing.T) {
	x := newIndex([]api.Machine{{UUID: "42000000-0000-0000-0000-000000000001", HostName: "n"}})
	for _, reported := range []string{"", "VMware-42 10 5e 2b 94 5d 11 ed-a1 eb 02 42 ac 12 00 02", "4210", "9f2c4b1f5f2e4c58a2a8d2d5a0a7b6c1"} {
		if m, err := x.find(cloud.InstanceRef{NodeName: "n", SystemUUID: reported}); err != nil || m == nil {
			t.Errorf("%q: %v, %v", reported, m, err)
		}
	}
	if _, err := x.find(cloud.InstanceRef{NodeName: "n", SystemUUID: "42000000-0000-0000-0000-000000000002"}); err == nil {
		t.Error("a Node gets a machine with another UUID")
	}
}
