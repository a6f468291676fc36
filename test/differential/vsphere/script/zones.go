package script

import (
	"fmt"

	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
)

const (
	zone, region = "k8s-zone", "k8s-region"
	zonesConf    = "labels:\n  zone: k8s-zone\n  region: k8s-region\n"
)

// inZones are groups whose file names categories of tags.
func inZones() []Group {
	c := &cast{}
	at := func(host string) *Machine { return &Machine{Spec: sim.Spec{Host: host}} }
	c.add("zone-cluster", plain(at("/DC0/host/DC0_C0/DC0_C0_H0")))
	c.add("zone-host-and-cluster", plain(at("/DC0/host/DC0_C0/DC0_C0_H1")))
	c.add("zone-host-alone", plain(at("/DC0/host/DC0_C0/DC0_C0_H2")))
	c.add("zone-none", plain(at("/DC0/host/DC0_C1/DC0_C1_H0")))
	c.add("zone-none-id", Node{ProviderID: "vsphere://{uuid}", SystemUUID: "{swapped}", Machine: at("/DC0/host/DC0_C1/DC0_C1_H0")})
	c.add("zone-none-known", Node{ProviderID: "vsphere://{uuid}", SystemUUID: "{swapped}", Known: true, Machine: at("/DC0/host/DC0_C1/DC0_C1_H0")})
	c.add("zone-host-region-elsewhere", plain(at("/DC0/host/DC0_C1/DC0_C1_H1")))
	c.add("zone-alone-host", plain(at("/DC0/host/DC0_H0/DC0_H0")))
	c.add("zone-no-region", plain(at("/DC1/host/DC1_C0/DC1_C0_H0")))
	pool := func(host, pool string) *Machine { return &Machine{Spec: sim.Spec{Host: host, Pool: pool}} }
	c.add("zone-pool", plain(pool("/DC0/host/DC0_C1/DC0_C1_H0", "/DC0/host/DC0_C1/Resources/tagged")))
	c.add("zone-pool-below", plain(pool("/DC0/host/DC0_C1/DC0_C1_H0", "/DC0/host/DC0_C1/Resources/tagged/below")))
	c.add("zone-pool-and-cluster", plain(pool("/DC0/host/DC0_C0/DC0_C0_H0", "/DC0/host/DC0_C0/Resources/tagged")))
	folder := func(host, folder string) *Machine { return &Machine{Spec: sim.Spec{Host: host, Folder: folder}} }
	c.add("zone-folder", plain(folder("/DC0/host/DC0_C1/DC0_C1_H0", "/DC0/vm/tagged")))
	c.add("zone-folder-below", plain(folder("/DC0/host/DC0_C1/DC0_C1_H0", "/DC0/vm/tagged/below")))
	c.add("zone-folder-both", plain(folder("/DC1/host/DC1_C0/DC1_C0_H0", "/DC1/vm/both")))
	c.add("zone-folder-and-cluster", plain(folder("/DC0/host/DC0_C0/DC0_C0_H0", "/DC0/vm/tagged")))
	c.add("zone-moves", plain(at("/DC0/host/DC0_C0/DC0_C0_H0")), becomes(sim.Change{Host: "/DC0/host/DC0_C0/DC0_C0_H2"}))
	c.add("zone-machine", plain(at("/DC0/host/DC0_C1/DC0_C1_H0")), Step{Tag: &sim.Tag{Path: "/DC0/vm/zone-machine", Category: zone, Name: "zone-of-machine"}})
	c.add("zone-off", plain(at("/DC0/host/DC0_C0/DC0_C0_H0")), dies(sim.Change{State: "off"}))
	c.add("zone-deleted", plain(at("/DC0/host/DC0_C0/DC0_C0_H0")), dies(sim.Change{State: "deleted"}))
	world := World{Inventory: sim.Inventory{Clusters: 2,
		Folders: []string{"/DC0/vm/tagged", "/DC0/vm/tagged/below", "/DC1/vm/both"},
		Pools:   []string{"/DC0/host/DC0_C1/Resources/tagged", "/DC0/host/DC0_C1/Resources/tagged/below", "/DC0/host/DC0_C0/Resources/tagged"},
		Tags: []sim.Tag{
			{Path: "/DC0", Category: region, Name: "region-0"}, {Path: "/DC0/host/DC0_C0", Category: zone, Name: "zone-c0"}, {Path: "/DC0/host/DC0_C0", Category: "team", Name: "a"},
			{Path: "/DC0/host/DC0_C0/DC0_C0_H1", Category: zone, Name: "zone-h1"}, {Path: "/DC0/host/DC0_C0/DC0_C0_H2", Category: zone, Name: "zone-h2"},
			{Path: "/DC0/host/DC0_C0/DC0_C0_H2", Category: region, Name: "region-h2"}, {Path: "/DC0/host/DC0_C1/DC0_C1_H1", Category: zone, Name: "zone-h1-of-c1"},
			{Path: "/DC0/host/DC0_H0", Category: zone, Name: "zone-alone"}, {Path: "/DC1", Category: zone, Name: "zone-dc1"},
			{Path: "/DC0/host/DC0_C1/Resources/tagged", Category: zone, Name: "zone-pool"}, {Path: "/DC0/host/DC0_C0/Resources/tagged", Category: zone, Name: "zone-pool-c0"},
			{Path: "/DC0/vm/tagged", Category: zone, Name: "zone-folder"}, {Path: "/DC1/vm/both", Category: zone, Name: "zone-both"}, {Path: "/DC1/vm/both", Category: region, Name: "region-both"},
		}}}
	half, lacking := &cast{}, &cast{}
	half.add("zone-half", plain(at("/DC0/host/DC0_C0/DC0_C0_H2")))
	lacking.add("zone-lacking", plain(at("/DC0/host/DC0_C0/DC0_C0_H2")))
	lacking.add("zone-lacking-id", Node{ProviderID: "vsphere://{uuid}", SystemUUID: "{swapped}", Machine: at("/DC0/host/DC0_C0/DC0_C0_H2")})
	return []Group{
		c.group("zones", usualConf+zonesConf, world),
		half.group("zones-half", usualConf+"labels:\n  zone: k8s-zone\n", world),
		lacking.group("zones-lacking", ini+"[Labels]\nzone = no-such-zone\nregion = no-such-region\n", world),
	}
}

// several are groups of several vCenters, of credentials in a Secret, and of vCenters that are down.
func several() []Group {
	two, secret, down := &cast{}, &cast{}, &cast{}
	number := 0
	second := func() *Machine { // its vCenter's file asks for both families
		number++
		return &Machine{VCenter: 1, Spec: sim.Spec{NICs: ips(fmt.Sprint("10.7.1.", number), fmt.Sprint("fd00:7:1::", number))}}
	}
	two.add("two-first", plain(&Machine{}))
	two.add("two-second", plain(second()))
	two.add("two-second-name", Node{Machine: second()})
	two.add("two-second-id", Node{ProviderID: "vsphere://{uuid}", SystemUUID: "{swapped}", Machine: second()})
	two.add("two-second-off", plain(second()), dies(sim.Change{State: "off"}))
	two.add("two-second-deleted", plain(second()), dies(sim.Change{State: "deleted"}))
	two.beside("two-same-name", plain(&Machine{}), []Machine{{VCenter: 1, Spec: sim.Spec{HostName: "two-same-name"}}})
	two.add("two-none", Node{SystemUUID: uuidOf("in none of both")})
	two.add("two-none-id", Node{ProviderID: "vsphere://" + uuidOf("in none"), SystemUUID: uuidOf("in none"), Known: true, Ready: "Unknown"})
	two.add("two-second-four", plain(&Machine{VCenter: 1}))
	two.add("two-first-six", plain(with(ips("10.7.0.1", "fd00:7::1")...)))
	secret.add("secret", plain(&Machine{}))
	secret.add("secret-deleted", plain(&Machine{}), dies(sim.Change{State: "deleted"}))
	down.add("down-first", plain(&Machine{}), Step{Down: 2, Ready: "Unknown"}, Step{Up: 2, Ready: "True"})
	down.add("down-second", plain(second()), Step{Ready: "Unknown"}, Step{Ready: "True"})
	down.add("down-second-deleted", plain(second()), dies(sim.Change{State: "deleted"}), Step{Ready: "Unknown"})
	down.add("down-first-deleted", plain(&Machine{}), dies(sim.Change{State: "deleted"}), Step{Ready: "Unknown"})
	down.add("down-first-known", Node{ProviderID: "vsphere://{uuid}", SystemUUID: "{swapped}", Known: true, Machine: &Machine{}}, Step{Ready: "Unknown"}, Step{Ready: "True"})
	withSecret := "global:\n  secretName: vcenter\n  secretNamespace: kube-system\nvcenter:\n  a:\n    server: \"{vc0:server}\"\n    port: {vc0:port}\n    insecureFlag: true\n"
	return []Group{
		two.group("two", "vcenter:\n"+vc0+vc1+"    ipFamily: [ipv4, ipv6]\n", World{Two: true}),
		secret.group("secret", withSecret, World{Secret: map[string]string{"{vc0:server}.username": "{vc0:user}", "{vc0:server}.password": "{vc0:password}"}}),
		down.group("down", "vcenter:\n"+vc0+vc1, World{Two: true}),
	}
}
