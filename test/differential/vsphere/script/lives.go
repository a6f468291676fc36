package script

import (
	corev1 "k8s.io/api/core/v1"

	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
)

// lives are what becomes of machines and their Nodes. What ours looks at only when its answers have some age is in the first step.
func lives() Group {
	c := &cast{}
	powers(c)
	deaths(c)
	moves(c)
	joins(c)
	return c.group("lives", usualConf, World{Inventory: sim.Inventory{Folders: []string{"/DC0/vm/other"}}})
}

func powers(c *cast) {
	id := Node{ProviderID: "vsphere://{uuid}", SystemUUID: "{swapped}", Machine: &Machine{}}
	c.add("life-off", plain(&Machine{}), dies(sim.Change{State: "off"}), wakes(sim.Change{State: "on"}))
	c.add("life-off-id", id, dies(sim.Change{State: "off"}), wakes(sim.Change{State: "on"}))
	c.add("life-off-silent", plain(&Machine{}), dies(sim.Change{State: "off", Silent: true}))
	c.add("life-off-ready", plain(&Machine{}), becomes(sim.Change{State: "off"}))
	c.add("life-off-false", plain(&Machine{}), Step{Machine: &sim.Change{State: "off"}, Ready: corev1.ConditionFalse})
	c.add("life-off-known", Node{ProviderID: "vsphere://{uuid}", SystemUUID: "{swapped}", Known: true, Ready: corev1.ConditionUnknown, Machine: &Machine{Spec: sim.Spec{State: "off"}}})
	c.add("life-off-new", plain(&Machine{Spec: sim.Spec{State: "off"}}))
	c.add("life-off-deleted", plain(&Machine{}), dies(sim.Change{State: "off"}), becomes(sim.Change{State: "deleted"}))
	c.add("life-suspended", plain(&Machine{}), dies(sim.Change{State: "suspended"}), wakes(sim.Change{State: "on"}))
	c.add("life-suspended-ready", plain(&Machine{}), becomes(sim.Change{State: "suspended"}))
	c.add("life-hangs", plain(&Machine{}), Step{Ready: corev1.ConditionUnknown}, Step{Ready: corev1.ConditionTrue})
	c.add("life-silent", plain(&Machine{}), becomes(sim.Change{Silent: true}))
	c.add("life-silent-hangs", plain(&Machine{}), dies(sim.Change{Silent: true}))
	for _, state := range []string{"disconnected", "inaccessible", "orphaned"} {
		c.add("life-"+state, plain(&Machine{}), dies(sim.Change{Connection: state}))
		c.add("life-"+state+"-off", plain(&Machine{}), dies(sim.Change{Connection: state, State: "off"}))
	}
}

func deaths(c *cast) {
	deleted := sim.Change{State: "deleted"}
	c.add("life-deleted", plain(&Machine{}), dies(deleted))
	c.add("life-deleted-false", plain(&Machine{}), Step{Machine: &deleted, Ready: corev1.ConditionFalse})
	c.add("life-deleted-ready", plain(&Machine{}), becomes(deleted), Step{Ready: corev1.ConditionUnknown})
	c.add("life-deleted-id", Node{ProviderID: "vsphere://{uuid}", SystemUUID: "{swapped}", Machine: &Machine{}}, dies(deleted))
	c.add("life-deleted-no-uuid", Node{Machine: &Machine{}}, dies(deleted))
	c.add("life-deleted-known", Node{ProviderID: "vsphere://{uuid}", SystemUUID: "{swapped}", Known: true, Machine: &Machine{}}, dies(deleted))
	c.add("life-deleted-known-no-id", Node{SystemUUID: "{swapped}", Known: true, Machine: &Machine{}}, dies(deleted))
	c.add("life-dead-known", Node{ProviderID: "vsphere://" + uuidOf("dead"), SystemUUID: uuidOf("dead too"), Known: true, Ready: corev1.ConditionUnknown})
	c.add("life-dead-known-no-id", Node{SystemUUID: uuidOf("dead as well"), Known: true, Ready: corev1.ConditionUnknown})
	c.add("life-dead-known-nothing", Node{Known: true, Ready: corev1.ConditionUnknown})
	c.add("life-dead-new", Node{SystemUUID: uuidOf("never there"), Ready: corev1.ConditionUnknown})
	c.add("life-dead-empty-id", Node{ProviderID: "vsphere://", SystemUUID: "{swapped}", Known: true, Ready: corev1.ConditionUnknown, Machine: &Machine{}})
	c.add("life-dead-foreign", Node{ProviderID: "aws:///eu-central-1a/i-0123456789abcdef0", SystemUUID: uuidOf("of another cloud"), Known: true, Ready: corev1.ConditionUnknown})
	c.add("life-dead-odd-id", Node{ProviderID: "vsphere://not-a-uuid", SystemUUID: uuidOf("odd"), Known: true, Ready: corev1.ConditionUnknown})
	c.add("life-uuid", plain(&Machine{}), becomes(sim.Change{UUID: uuidOf("life-uuid, later")}))
	c.add("life-uuid-hangs", plain(&Machine{}), dies(sim.Change{UUID: uuidOf("life-uuid-hangs, later")}))
	c.add("life-node-deleted", plain(&Machine{}), Step{Delete: true})
}

func moves(c *cast) {
	c.add("life-folder", plain(&Machine{}), dies(sim.Change{Folder: "/DC0/vm/other"}))
	c.add("life-host", plain(&Machine{}), becomes(sim.Change{Host: "/DC0/host/DC0_C0/DC0_C0_H2"}))
	c.add("life-cluster", plain(&Machine{}), dies(sim.Change{Host: "/DC0/host/DC0_H0/DC0_H0"}))
	c.add("life-datacenter", plain(&Machine{}), dies(sim.Change{Host: "/DC1/host/DC1_C0/DC1_C0_H0"}))
	c.add("life-name", plain(&Machine{}), becomes(sim.Change{Name: "renamed"}))
	c.add("life-host-name", plain(&Machine{}), becomes(sim.Change{HostName: "another"}))
	c.add("life-address", plain(with(ips("10.4.0.1")...)), becomes(sim.Change{NICs: ips("10.4.0.2")}))
	c.add("life-address-first", plain(with(ips("10.4.1.1")...)), becomes(sim.Change{NICs: ips("10.4.1.2", "10.4.1.1")}))
	c.add("life-address-more", plain(with(ips("10.4.2.1")...)), becomes(sim.Change{NICs: []sim.NIC{on("VM Network", "10.4.2.1"), on("storage", "10.4.2.2")}}))
	c.add("life-address-none", plain(with(ips("10.4.3.1")...)), becomes(sim.Change{NICs: []sim.NIC{on("VM Network")}}))
	c.add("life-address-local", plain(with(ips("10.4.4.1")...)), becomes(sim.Change{NICs: ips("169.254.4.1")}))
	c.add("life-cpus", plain(&Machine{}), becomes(sim.Change{CPUs: 8}))
}

func joins(c *cast) {
	wait := Step{Delete: true}
	c.add("life-again", plain(&Machine{}), wait, Step{Joins: &Node{SystemUUID: "{swapped}"}})
	c.add("life-again-id", plain(&Machine{}), wait, Step{Joins: &Node{SystemUUID: "{swapped}", ProviderID: "vsphere://{uuid}"}})
	c.add("life-replaced", plain(&Machine{}), Step{Machine: &sim.Change{State: "deleted"}, Delete: true},
		Step{Joins: &Node{SystemUUID: "{swapped}", Machine: &Machine{Spec: sim.Spec{Name: "life-replaced", UUID: uuidOf("life-replaced, later")}}}})
	c.add("life-replaced-no-uuid", Node{Machine: &Machine{}}, Step{Machine: &sim.Change{State: "deleted"}, Delete: true},
		Step{Joins: &Node{Machine: &Machine{Spec: sim.Spec{Name: "life-replaced-no-uuid", UUID: uuidOf("life-replaced-no-uuid, later")}}}})
	c.add("life-tools-late", plain(&Machine{Spec: sim.Spec{HostName: none, NICs: noNICs}}), becomes(sim.Change{HostName: "life-tools-late", NICs: ips("10.4.5.1")}))
	c.add("life-address-late", plain(with(ips("169.254.4.2")...)), becomes(sim.Change{NICs: ips("10.4.6.1")}))
	c.add("life-host-name-late", Node{Machine: &Machine{Spec: sim.Spec{HostName: "localhost.localdomain"}}}, becomes(sim.Change{HostName: "life-host-name-late"}))
}
