package difference

import "github.com/isthmus-cloud/isthmus/test/differential/compare"

// AtTakeover is all that ours does when it is started on what the existing manager has left.
func AtTakeover() []compare.Exception {
	return []compare.Exception{
		{
			Name: "Nodes that wait",
			What: "A Node that waits to be initialized, and of which its machine's UUID, its provider ID, its host name in another case or another of its addresses says which " +
				"machine it is, is initialized.",
			Why:   "The existing manager goes by exact host names, and leaves it waiting.",
			Match: `(uuid-(other-name(-same)?|domain|without-domain|case)|name-(case|address-second)|id-(without-uuid|of-another)), create: \S+` + all + `: .*`,
		},
		{
			Name:  "Nodes that wait for what is not needed",
			What:  "A Node that waits because the tools in its machine tell an address alone, or because its metadata cannot be read, is initialized.",
			Why:   "The existing manager leaves it waiting.",
			Match: `(nic-none-address|metadata-(network-(unknown|broken|no-gzip)|broken|no-yaml)), create: \S+` + all + `: .*`,
		},
		{
			Name:  "Nodes that wait for another address",
			What:  "A Node whose kubelet was given an address of its machine (--node-ip) that is not the first one is initialized.",
			Why:   "The existing manager leaves it waiting.",
			Match: `(provided|dual-provided)-(second|second-nic|six|four|both), create: \S+` + all + `: .*`,
		},
		{
			Name:  "Nodes that wait for machines outside the datacenters",
			What:  "A Node whose machine is in none of the datacenters that the file names is initialized by its UUID, or its provider ID.",
			Why:   "The existing manager leaves it waiting.",
			Match: `datacenter-(other|other-id|enters), .*: \S+` + all + `: .*`,
		},
		{
			Name:  "how addresses are written",
			What:  "An address that tools tell in an unusual form, such as ::ffff:10.1.13.1, is written in its usual one.",
			Why:   "Others compare addresses as texts.",
			Match: `(nic-mapped|dual(6|ranges)?-(mapped|long)|six-long), create: \S+ addresses: .*`,
		},
		{
			Name:  "addresses beside missing tags",
			What:  "The addresses of a Node that is initialized are written, also while its machine has no tags.",
			Why:   "They have nothing to do with zones.",
			Match: `zone-none-known, .*: \S+ addresses: .*`,
		},
		{
			Name:  "machines that are off",
			What:  "A Node is marked as shut down when its machine is off and tells nothing, and is so no more when the vCenter has lost its machine.",
			Why:   "The existing manager marks the one not, and the other one, of which nobody knows whether it runs.",
			Match: `life-(off-silent|(disconnected|inaccessible|orphaned)-off), .*: \S+ taints: .*`,
		},
		{
			Name:  "machines that have another UUID now",
			What:  "A Node that is not ready is deleted when its machine has got another UUID, if no manager that has seen the old one runs any more.",
			Why:   "Nothing else says which machine it was; the existing manager does the same when it is started anew.",
			Match: `life-uuid-hangs, change 1: .*, is `,
		},
		{
			Name:  "Nodes that nothing is known of",
			What:  "A Node that is not ready, without a provider ID, and of which no vCenter knows anything is deleted.",
			Why:   "It is what is left of a machine that is gone; the existing manager keeps it for ever.",
			Match: `life-dead-(known-no-id|known-nothing|new), create: .*, is `,
		},
	}
}

// TakingBack is all that the existing manager does when it is started on what ours has left.
func TakingBack() []compare.Exception {
	return []compare.Exception{
		{
			Name:  "how addresses are written",
			What:  "It writes an address as tools tell it: ::ffff:10.1.13.1, FD00:6:0:0:0:0:0:A.",
			Why:   "Isthmus writes it in its usual form.",
			Match: `(nic-mapped|dual(6|ranges)?-(mapped|long)|six-long), create: \S+ addresses: .*`,
		},
		{
			Name:  "Nodes of others",
			What:  "It deletes a Node that is not ready and whose provider ID is another cloud's, or no UUID.",
			Why:   "Isthmus leaves it alone.",
			Match: `life-dead-(foreign|odd-id), create: .*, is `,
		},
		{
			Name:  "machines outside the datacenters",
			What:  "It deletes a Node that is not ready and whose machine is in none of the datacenters that the file names.",
			Why:   "It looks nowhere else. Isthmus finds it by its UUID.",
			Match: `datacenter-left-known, create: .*, is `,
		},
		{
			Name:  "Nodes that wait",
			What:  "It initializes a Node whose machine Isthmus does not take for the Node's: it has the Node's name but another UUID than the Node reports, or another machine has the same UUID.",
			Why:   "It goes by the name, and takes the first one.",
			Match: `(name-of-another|uuid-of-none|uuid-twice), create: \S+` + all + `: .*`,
		},
	}
}
