package script

import (
	corev1 "k8s.io/api/core/v1"

	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
)

// names are the ways in which a Node leads to its machine.
func names() Group {
	c := &cast{}
	host := func(name string) *Machine { return &Machine{Spec: sim.Spec{HostName: name}} }
	byUUID(c, host)
	byProviderID(c)
	c.add("name-only", Node{Machine: &Machine{}})
	c.add("name-only-known", Node{Known: true, Machine: &Machine{}})
	c.add("name-fqdn", Node{As: "name-fqdn.example.org", Machine: host("name-fqdn.example.org")})
	c.add("name-without-domain", Node{Machine: host("name-without-domain.example.org")})
	c.add("name-with-domain", Node{As: "name-with-domain.example.org", Machine: host("name-with-domain")})
	c.add("name-case", Node{Machine: host("Name-Case")})
	c.add("name-address", Node{As: "10.0.250.1", Machine: &Machine{Spec: sim.Spec{HostName: "other", NICs: ips("10.0.250.1"), Address: "10.0.250.1"}}})
	c.add("name-address-second", Node{As: "10.0.250.3", Machine: &Machine{Spec: sim.Spec{HostName: "other-too", NICs: ips("10.0.250.2", "10.0.250.3"), Address: "10.0.250.2"}}})
	c.add("name-of-machine", Node{Machine: &Machine{Spec: sim.Spec{Name: "name-of-machine", HostName: "localhost"}}})
	c.add("name-none", Node{})
	c.add("name-none-known", Node{Known: true})
	c.beside("name-twice", Node{Machine: &Machine{}}, []Machine{*host("name-twice")})
	c.beside("name-twice-other-datacenter", Node{SystemUUID: "{swapped}", Machine: &Machine{}},
		[]Machine{{Spec: sim.Spec{HostName: "name-twice-other-datacenter", Host: "/DC1/host/DC1_H0/DC1_H0"}}})
	c.beside("name-twice-uuid", plain(&Machine{}), []Machine{*host("name-twice-uuid")})
	c.beside("name-of-another", Node{SystemUUID: uuidOf("nowhere")}, []Machine{*host("name-of-another")})
	c.beside("uuid-of-another", Node{SystemUUID: uuidOf("uuid-of-another-other-0"), Machine: &Machine{}}, []Machine{{}})
	c.add("labels-there", Node{SystemUUID: "{swapped}", Machine: &Machine{}, Labels: map[string]string{corev1.LabelInstanceTypeStable: "mine", "team": "a"}})
	return c.group("names", usualConf, World{})
}

func byUUID(c *cast, host func(string) *Machine) {
	c.add("uuid-swapped", plain(&Machine{}))
	c.add("uuid-same", Node{SystemUUID: "{uuid}", Machine: &Machine{}})
	c.add("uuid-swapped-upper", Node{SystemUUID: "{SWAPPED}", Machine: &Machine{}})
	c.add("uuid-same-upper", Node{SystemUUID: "{UUID}", Machine: &Machine{}})
	c.add("uuid-short", Node{SystemUUID: "4210", Machine: &Machine{}})
	c.add("uuid-odd", Node{SystemUUID: "VMware-42 10 5e 2b 94 5d 11 ed-a1 eb 02 42 ac 12 00 02", Machine: &Machine{}})
	c.add("uuid-of-none", Node{SystemUUID: uuidOf("nobody"), Machine: &Machine{}})
	c.add("uuid-other-name", plain(host("something-else")))
	c.add("uuid-other-name-same", Node{SystemUUID: "{uuid}", Machine: host("something-else-too")})
	c.add("uuid-domain", plain(host("uuid-domain.example.org")))
	c.add("uuid-without-domain", Node{As: "uuid-without-domain.example.org", SystemUUID: "{swapped}", Machine: host("uuid-without-domain")})
	c.add("uuid-case", plain(host("Uuid-Case")))
	c.add("uuid-address", Node{As: "10.0.250.4", SystemUUID: "{swapped}", Machine: &Machine{Spec: sim.Spec{HostName: "third", NICs: ips("10.0.250.4"), Address: "10.0.250.4"}}})
	c.add("uuid-known", Node{SystemUUID: "{swapped}", Known: true, Machine: &Machine{}})
	c.add("uuid-folder", plain(&Machine{Spec: sim.Spec{Host: "/DC1/host/DC1_C0/DC1_C0_H1"}}))
	c.add("uuid-alone-host", plain(&Machine{Spec: sim.Spec{Host: "/DC0/host/DC0_H0/DC0_H0"}}))
	c.beside("uuid-twice", plain(with(ips("10.0.251.1")...)), []Machine{{Spec: sim.Spec{HostName: "uuid-twice", UUID: uuidOf("uuid-twice"), NICs: ips("10.0.251.1")}}})
}

func byProviderID(c *cast) {
	for _, form := range []struct{ name, id string }{
		{"id", "vsphere://{uuid}"}, {"id-bare", "{uuid}"}, {"id-upper", "vsphere://{UUID}"}, {"id-bare-upper", "{UUID}"}, {"id-swapped", "vsphere://{swapped}"},
		{"id-empty", "vsphere://"}, {"id-spaces", "vsphere:// {uuid} "}, {"id-slash", "vsphere:///{uuid}"}, {"id-foreign", "aws:///eu-central-1a/i-0123456789abcdef0"},
		{"id-odd", "vsphere://not-a-uuid"}, {"id-upper-scheme", "VSPHERE://{uuid}"}, {"id-of-none", "vsphere://" + uuidOf("nobody at all")},
	} {
		c.add(form.name, Node{ProviderID: form.id, SystemUUID: "{swapped}", Machine: &Machine{}})
	}
	c.add("id-without-uuid", Node{ProviderID: "vsphere://{uuid}", Machine: &Machine{}})
	c.add("id-other-name", Node{ProviderID: "vsphere://{uuid}", SystemUUID: "{swapped}", Machine: &Machine{Spec: sim.Spec{HostName: "name-of-others"}}})
	c.beside("id-of-another", Node{ProviderID: "vsphere://" + uuidOf("id-of-another-other-0"), SystemUUID: "{swapped}", Machine: &Machine{}}, []Machine{{}})
	c.add("id-known", Node{ProviderID: "vsphere://{uuid}", SystemUUID: "{swapped}", Known: true, Machine: &Machine{}})
	c.add("id-foreign-known", Node{ProviderID: "gce://project/zone/name", SystemUUID: uuidOf("a foreign one"), Known: true})
}
