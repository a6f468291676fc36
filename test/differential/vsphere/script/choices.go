package script

import sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"

// inDatacenters are groups whose file names datacenters.
func inDatacenters() []Group {
	there, elsewhere := sim.Spec{Host: "/DC0/host/DC0_C0/DC0_C0_H0"}, sim.Spec{Host: "/DC1/host/DC1_C0/DC1_C0_H0"}
	one := &cast{}
	one.add("datacenter", plain(&Machine{Spec: there}))
	one.add("datacenter-other", plain(&Machine{Spec: elsewhere}))
	one.add("datacenter-other-name", Node{Machine: &Machine{Spec: elsewhere}})
	one.add("datacenter-other-id", Node{ProviderID: "vsphere://{uuid}", SystemUUID: "{swapped}", Machine: &Machine{Spec: elsewhere}})
	one.add("datacenter-leaves", plain(&Machine{Spec: there}), dies(sim.Change{Host: elsewhere.Host}))
	one.add("datacenter-left-known", Node{ProviderID: "vsphere://{uuid}", SystemUUID: "{swapped}", Known: true, Ready: "Unknown", Machine: &Machine{Spec: elsewhere}})
	one.add("datacenter-enters", plain(&Machine{Spec: elsewhere}), becomes(sim.Change{Host: there.Host}))
	path := &cast{}
	nested := sim.Spec{Host: "/top/DC1/host/DC1_C0/DC1_C0_H0"}
	path.add("datacenter-path", plain(&Machine{Spec: nested}))
	path.add("datacenter-path-name", Node{Machine: &Machine{Spec: nested}})
	path.add("datacenter-id", plain(&Machine{Spec: there}))
	all := &cast{}
	all.add("datacenter-all", plain(&Machine{Spec: there}))
	all.add("datacenter-all-nested", plain(&Machine{Spec: nested}))
	all.add("datacenter-all-nested-name", Node{Machine: &Machine{Spec: nested}})
	inTop := World{Inventory: sim.Inventory{Folders: []string{"/top"}}}
	return []Group{
		one.group("datacenters", "vcenter:\n"+vc0+"    datacenters: [DC0]\n", World{}),
		path.group("datacenters-path", ini+"datacenters = Datacenter:datacenter-1, /top/DC1\n", inTop),
		all.group("datacenters-all", usualConf, inTop),
	}
}

// choices are groups whose file says which addresses Nodes get.
func choices() []Group {
	ranges, excluded, networks, mixed, external := &cast{}, &cast{}, &cast{}, &cast{}, &cast{}
	for _, s := range []struct {
		name string
		nics []sim.NIC
	}{
		{"both", ips("10.5.0.1", "203.0.113.1")},
		{"both-turned", ips("203.0.113.2", "10.5.0.2")},
		{"two-nics", []sim.NIC{on("outside", "203.0.113.3"), on("inside", "10.5.0.3")}},
		{"internal", ips("192.0.2.4", "10.5.0.4")},
		{"external", ips("192.0.2.5", "203.0.113.5")},
		{"neither", ips("192.0.2.6", "192.0.2.7")},
		{"several", ips("192.168.5.8", "10.5.0.9", "10.5.0.8", "203.0.113.9", "203.0.113.8")},
		{"second-range", ips("192.168.5.10", "203.0.113.10")},
		{"excluded-first", ips("10.5.9.11", "10.5.0.11", "203.0.113.211", "203.0.113.11")},
		{"excluded", ips("10.5.9.12", "203.0.113.212")},
		{"excluded-internal", ips("10.5.9.13", "203.0.113.13")},
		{"named", []sim.NIC{on("other", "10.5.0.14"), on("Inside", "192.0.2.14"), on("OUTSIDE", "192.0.2.15")}},
		{"named-internal", []sim.NIC{on("inside", "192.0.2.16"), on("other", "203.0.113.16")}},
		{"named-external", []sim.NIC{on("other", "10.5.0.17"), on("outside", "192.0.2.17")}},
		{"named-neither", []sim.NIC{on("other", "10.5.0.18", "203.0.113.18")}},
		{"named-several", []sim.NIC{on("inside", "192.0.2.20", "192.0.2.19"), on("inside", "192.0.2.21"), on("outside", "192.0.2.22")}},
		{"named-empty", []sim.NIC{on("inside"), on("other", "192.0.2.23")}},
		{"named-container", []sim.NIC{{Network: "inside", Key: -1, IPs: []string{"192.0.2.24"}}, on("other", "192.0.2.25")}},
	} {
		ranges.add("ranges-"+s.name, plain(with(s.nics...)))
		excluded.add("excluded-"+s.name, plain(with(s.nics...)))
		networks.add("networks-"+s.name, plain(with(s.nics...)))
		mixed.add("mixed-"+s.name, plain(with(s.nics...)))
		external.add("one-"+s.name, plain(with(s.nics...)))
	}
	return []Group{
		ranges.group("ranges", usualConf+"nodes:\n  internalNetworkSubnetCidr: \"10.5.0.0/16,192.168.5.0/24\"\n  externalNetworkSubnetCidr: \"203.0.113.0/24\"\n", World{}),
		excluded.group("excluded", ini+"[Nodes]\nexclude-internal-network-subnet-cidr = 10.5.9.0/24,203.0.113.0/24\nexclude-external-network-subnet-cidr = 203.0.113.192/26,10.0.0.0/8\n", World{}),
		networks.group("networks", usualConf+"nodes:\n  internalVmNetworkName: inside\n  externalVmNetworkName: outside\n", World{}),
		mixed.group("mixed", ini+"[Nodes]\ninternal-network-subnet-cidr = 10.5.0.0/16\ninternal-vm-network-name = inside\nexternal-vm-network-name = outside\n"+
			"exclude-internal-network-subnet-cidr = 10.5.9.0/24\nexclude-external-network-subnet-cidr = 203.0.113.192/26\n", World{}),
		external.group("one", usualConf+"nodes:\n  externalVmNetworkName: outside\n  internalNetworkSubnetCidr: 192.168.5.0/24\n", World{}),
	}
}

// families are groups whose file names IP families.
func families() []Group {
	six, both, sixFirst, chosen := &cast{}, &cast{}, &cast{}, &cast{}
	for _, s := range []struct {
		name string
		nics []sim.NIC
	}{
		{"both", ips("10.6.0.1", "fd00:6::1")},
		{"six-first", ips("fd00:6::2", "10.6.0.2")},
		{"six-alone", ips("fd00:6::3")},
		{"four-alone", ips("10.6.0.4")},
		{"several", []sim.NIC{on("VM Network", "fe80::5", "10.6.0.6", "fd00:6::6"), on("second", "10.6.0.5", "2001:db8::5", "fd00:6::5")}},
		{"global", ips("2001:db8::7", "fd00:6::7", "203.0.113.7", "10.6.0.7")},
		{"link-local", ips("fe80::8", "10.6.0.8")},
		{"mapped", ips("::ffff:10.6.0.9", "fd00:6::9")},
		{"long", ips("FD00:6:0:0:0:0:0:A", "10.6.0.10")},
	} {
		six.add("six-"+s.name, plain(with(s.nics...)))
		both.add("dual-"+s.name, plain(with(s.nics...)))
		sixFirst.add("dual6-"+s.name, plain(with(s.nics...)))
		chosen.add("dualranges-"+s.name, plain(with(s.nics...)))
	}
	for _, ip := range []struct{ name, ip string }{{"four", "10.6.1.2"}, {"six", "fd00:6:1::2"}, {"both", "fd00:6:1::2,10.6.1.2"}} {
		both.add("dual-provided-"+ip.name, Node{SystemUUID: "{swapped}", Machine: with(ips("10.6.1.1", "10.6.1.2", "fd00:6:1::1", "fd00:6:1::2")...),
			Annotations: map[string]string{"alpha.kubernetes.io/provided-node-ip": ip.ip}})
	}
	return []Group{
		six.group("six", usualConf+"    ipFamily: [ipv6]\n", World{}),
		both.group("dual", usualConf+"    ipFamily: [ipv4, ipv6]\n", World{}),
		sixFirst.group("dual-six-first", ini+"ip-family = ipv6,ipv4\n", World{}),
		chosen.group("dual-ranges", usualConf+"    ipFamily: [ipv4, ipv6]\nnodes:\n  internalNetworkSubnetCidr: \"10.6.0.0/16,fd00:6::/32\"\n  externalNetworkSubnetCidr: \"203.0.113.0/24,2001:db8::/32\"\n", World{}),
	}
}
