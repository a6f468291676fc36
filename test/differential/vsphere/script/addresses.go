package script

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
)

// addresses are what tools in machines tell, where vsphere.conf says nothing of it; and types.
func addresses() Group {
	c := &cast{}
	nics(c)
	provided(c)
	metadata(c)
	types(c)
	return c.group("addresses", usualConf, World{})
}

func nics(c *cast) {
	no := sim.NIC{Network: "cni0", Key: -1, IPs: []string{"10.244.0.1"}}
	c.add("nic-two-addresses", plain(with(ips("10.1.0.2", "10.1.0.1")...)))
	c.add("nic-two", plain(with(on("first", "10.1.1.2"), on("second", "10.1.1.1"))))
	c.add("nic-two-of-a-network", plain(with(on("same", "10.1.2.2"), on("same", "10.1.2.1"))))
	c.add("nic-none", plain(with(noNICs...)))
	c.add("nic-none-address", plain(&Machine{Spec: sim.Spec{NICs: noNICs, Address: "10.1.3.1"}}))
	c.add("nic-empty", plain(with(on("VM Network"))))
	c.add("nic-empty-first", plain(with(on("first"), on("second", "10.1.4.1"))))
	c.add("nic-empty-address", plain(&Machine{Spec: sim.Spec{NICs: []sim.NIC{on("VM Network")}, Address: "10.1.3.2"}}))
	c.add("nic-other-address", plain(&Machine{Spec: sim.Spec{NICs: ips("10.1.5.1"), Address: "10.1.5.2"}}))
	c.add("nic-container", plain(with(no, on("VM Network", "10.1.6.1"))))
	c.add("nic-container-alone", plain(with(no)))
	c.add("nic-container-last", plain(with(on("VM Network", "10.1.6.2"), no)))
	c.add("nic-six-first", plain(with(ips("fd00:1::7", "10.1.7.1")...)))
	c.add("nic-six-alone", plain(with(ips("fd00:1::8")...)))
	c.add("nic-link-local", plain(with(ips("169.254.10.1", "fe80::1", "10.1.8.1")...)))
	c.add("nic-link-local-alone", plain(with(ips("169.254.10.2", "fe80::2")...)))
	c.add("nic-loopback", plain(with(ips("127.0.0.1", "::1", "10.1.9.1")...)))
	c.add("nic-loopback-range", plain(with(ips("127.8.8.8", "10.1.9.2")...)))
	c.add("nic-unspecified", plain(with(ips("0.0.0.0", "::", "10.1.10.1")...)))
	c.add("nic-multicast", plain(with(ips("224.0.0.5", "10.1.11.1")...)))
	c.add("nic-multicast-far", plain(with(ips("239.1.1.1", "10.1.11.2")...)))
	c.add("nic-no-address", plain(with(ips("unknown", "", "10.1.12.1")...)))
	c.add("nic-mapped", plain(with(ips("::ffff:10.1.13.1")...)))
	c.add("nic-scoped", plain(with(ips("fe80::1%eth0", "10.1.14.1")...)))
	c.add("nic-public", plain(with(ips("203.0.113.7")...)))
	c.add("nic-public-second", plain(with(on("inside", "10.1.15.1"), on("outside", "203.0.113.8"))))
	c.add("nic-twice-the-same", plain(with(ips("10.1.16.1", "10.1.16.1")...)))
	c.add("nic-ranges", plain(with(ips("192.168.7.1/24", "10.1.17.1")...)))
	c.add("host-name-none", plain(&Machine{Spec: sim.Spec{HostName: none}}))
	c.add("host-name-none-id", Node{ProviderID: "vsphere://{uuid}", SystemUUID: "{swapped}", Machine: &Machine{Spec: sim.Spec{HostName: none}}})
	c.add("addresses-there", Node{SystemUUID: "{swapped}", Machine: with(ips("10.1.18.1")...), Addresses: []string{"InternalIP 10.1.18.9", "Hostname addresses-there"}})
}

// provided are Nodes whose kubelets were given an address.
func provided(c *cast) {
	node := func(ip string, m *Machine) Node {
		return Node{SystemUUID: "{swapped}", Machine: m, Annotations: map[string]string{"alpha.kubernetes.io/provided-node-ip": ip}}
	}
	c.add("provided", node("10.2.0.1", with(ips("10.2.0.1", "10.2.0.2")...)))
	c.add("provided-second", node("10.2.1.2", with(ips("10.2.1.1", "10.2.1.2")...)))
	c.add("provided-second-nic", node("10.2.2.2", with(on("first", "10.2.2.1"), on("second", "10.2.2.2"))))
	c.add("provided-unknown", node("192.0.2.7", with(ips("10.2.3.1")...)))
	c.add("provided-six", node("fd00:2::4", with(ips("10.2.4.1", "fd00:2::4")...)))
	c.add("provided-odd", node("no address", with(ips("10.2.5.1")...)))
	c.add("provided-any", node("0.0.0.0", with(ips("10.2.6.1")...)))
	c.add("provided-both", node("10.2.7.1,fd00:2::7", with(ips("10.2.7.1", "fd00:2::7")...)))
}

// metadata are machines whose cloud-init was given addresses.
func metadata(c *cast) {
	encode := base64.StdEncoding.EncodeToString
	network := func(addresses ...string) string {
		text := "version: 2\nethernets:\n  eth0:\n    addresses:\n"
		for _, a := range addresses {
			text += fmt.Sprintf("    - %q\n", a)
		}
		return text
	}
	packed := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text)) // a Buffer takes all
		_ = w.Close()
		return b.Bytes()
	}
	indented := func(text string) string {
		return "instance-id: i\nnetwork:\n  " + string(bytes.ReplaceAll(bytes.TrimSpace([]byte(text)), []byte("\n"), []byte("\n  "))) + "\n"
	}
	inside := func(encoding, data string) string {
		return fmt.Sprintf("instance-id: i\nnetwork: %s\nnetwork.encoding: %s\n", data, encoding)
	}
	number := 0
	one := func(name, encoding string, text func(second, third string) string) {
		number++
		a := func(n int) string { return fmt.Sprintf("10.3.%d.%d", number, n) }
		m := with(ips(a(1), a(2), a(3))...)
		m.Settings = map[string]string{"guestinfo.metadata": text(a(2), a(3)), "guestinfo.metadata.encoding": encoding, "guestinfo.userdata": "x"}
		c.add(name, plain(m))
	}
	usual := func(second, third string) string { return network(third+"/24", second+"/24") }
	one("metadata", "base64", func(b, d string) string { return encode([]byte(indented(usual(b, d)))) })
	one("metadata-one", "base64", func(b, _ string) string { return encode([]byte(indented(network(b + "/16")))) })
	one("metadata-no-length", "base64", func(b, _ string) string { return encode([]byte(indented(network(b)))) })
	one("metadata-plain", "", func(b, d string) string { return indented(usual(b, d)) })
	one("metadata-unsaid", "", func(b, d string) string { return encode([]byte(indented(usual(b, d)))) })
	one("metadata-b64", "b64", func(b, d string) string { return encode([]byte(indented(usual(b, d)))) })
	one("metadata-upper", "BASE64", func(b, d string) string { return encode([]byte(indented(usual(b, d)))) })
	one("metadata-gzip", "gzip+base64", func(b, d string) string { return encode(packed(indented(usual(b, d)))) })
	for _, e := range []string{"base64", "b64"} {
		one("metadata-network-"+e, "base64", func(b, d string) string { return encode([]byte(inside(e, encode([]byte(usual(b, d)))))) })
	}
	for _, e := range []string{"gzip+base64", "gz+b64"} {
		one("metadata-network-"+map[string]string{"gzip+base64": "gzip-base64", "gz+b64": "gz-b64"}[e], "base64", func(b, d string) string {
			return encode([]byte(inside(e, encode(packed(usual(b, d))))))
		})
	}
	one("metadata-network-unknown", "base64", func(b, d string) string { return encode([]byte(inside("zstd", encode([]byte(usual(b, d)))))) })
	one("metadata-network-broken", "base64", func(string, string) string { return encode([]byte(inside("base64", "%%%"))) })
	one("metadata-network-no-gzip", "base64", func(b, d string) string { return encode([]byte(inside("gz+b64", encode([]byte(usual(b, d)))))) })
	one("metadata-broken", "base64", func(string, string) string { return "%%%" })
	one("metadata-no-yaml", "base64", func(string, string) string { return encode([]byte("a: b: c\n\t")) })
	one("metadata-no-network", "base64", func(string, string) string { return encode([]byte("instance-id: i\n")) })
	one("metadata-others", "base64", func(string, string) string { return encode([]byte(indented(network("192.0.2.1/24")))) })
	one("metadata-odd", "base64", func(b, _ string) string { return encode([]byte(indented(network("dhcp", b+"/24")))) })
	one("metadata-none", "base64", func(string, string) string { return "" })
}

// types are instance types.
func types(c *cast) {
	one := func(name string, cpus, memory int32, guest string) {
		c.add(name, plain(&Machine{Spec: sim.Spec{CPUs: cpus, MemoryMB: memory, GuestID: guest}}))
	}
	one("type-small", 1, 512, "otherGuest")
	one("type-floor", 3, 6143, "rhel9_64Guest")
	one("type-large", 64, 524288, "windows2019srv_64Guest")
	one("type-photon", 2, 2048, "vmwarePhoton64Guest")
	one("type-other-linux", 2, 2048, "other5xLinux64Guest")
	one("type-odd", 2, 2048, "freebsd14_64Guest")
	c.add("type-zone-there", Node{SystemUUID: "{swapped}", Machine: &Machine{}, Labels: map[string]string{corev1.LabelTopologyZone: "mine", corev1.LabelTopologyRegion: "mine"}})
}
