package difference

import (
	"slices"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
)

// Differences are all those that are meant to be.
func Differences() []compare.Intended {
	return slices.Concat(ofNames(), ofAddresses(), ofLives())
}

// all is what an initialized Node has and one that waits has not.
const all = ` (addresses|labels|providerID|taints)`

// ofNames are those of how a Node leads to its machine.
func ofNames() []compare.Intended {
	return []compare.Intended{
		{
			Name:      "the UUID that a kubelet reports counts",
			Theirs:    "A Node waits for ever unless the tools in its machine tell its very name as their host name, although it reports the machine's UUID: with a domain or without, in another case, or another name.",
			Here:      "It is found by its UUID, in either order of its bytes.",
			Why:       "Host names are what people, DHCP and tools make of them (#484); the UUID is the machine's own.",
			Scenarios: `uuid-(other-name(-same)?|domain|without-domain|case)`, Path: `\S+` + all,
		},
		{
			Name:      "host names in another case",
			Theirs:    "A Node without a UUID waits for ever when its machine's host name has upper-case letters.",
			Here:      "It is found.",
			Why:       "Names of Nodes have none, and host names do not differ by case (#484).",
			Scenarios: `name-case`, Path: `\S+` + all,
		},
		{
			Name:      "Nodes that are named by another address",
			Theirs:    "A Node that is named by an address of its machine is found only when the tools tell that address first.",
			Here:      "It is found by any that others can reach.",
			Why:       "Which one comes first is chance.",
			Scenarios: `name-address-second`, Path: `\S+` + all,
		},
		{
			Name:      "another cluster's machines",
			Theirs:    "A Node gets whichever machine has its name, although it reports another UUID.",
			Here:      "It waits, and the log says why.",
			Why:       "It is another machine, maybe another cluster's, and the Node would go with it (#661, #87).",
			Scenarios: `uuid-of-none|name-of-another`, Path: `\S+` + all,
		},
		{
			Name:      "the UUID that a kubelet reports counts before its name",
			Theirs:    "As above.",
			Here:      "It gets the machine whose UUID it reports.",
			Why:       "As above.",
			Scenarios: `uuid-of-another`, Path: `\S+ (addresses|providerID)`,
		},
		{
			Name:      "copies with the same UUID",
			Theirs:    "A Node gets any of several machines that have its UUID.",
			Here:      "It waits, and the log names them.",
			Why:       "It could be the wrong one; a copy needs a UUID of its own.",
			Scenarios: `uuid-twice`, Path: `\S+` + all,
		},
		{
			Name:      "machines outside the datacenters",
			Theirs:    "A Node waits for ever, or is deleted when it is not ready and the manager was started anew, when its machine is in none of the datacenters that the file names.",
			Here:      "It is found by its UUID, or its provider ID. Names are searched in the datacenters alone, as there.",
			Why:       "A machine that was moved is not gone; UUIDs are its own everywhere.",
			Scenarios: `datacenter-(other|other-id|left-known|enters)`, Path: `\S+(` + all + `)?`,
		},
		{
			Name:      "a provider ID is enough",
			Theirs:    "A Node with a provider ID waits for ever unless a Node reports the UUID in it.",
			Here:      "It is initialized by its provider ID.",
			Why:       "That says it all.",
			Scenarios: `id-(without-uuid|of-another)`, Path: `\S+ (addresses|labels|taints)`,
		},
	}
}

// ofAddresses are those of what is on a Node.
func ofAddresses() []compare.Intended {
	return []compare.Intended{
		{
			Name:      "tools that tell one address alone",
			Theirs:    "A machine whose tools tell an address, but no interfaces, leaves its Node waiting.",
			Here:      "The Node gets that address.",
			Why:       "Tools of some systems do so (#390).",
			Scenarios: `nic-none-address`, Path: `\S+` + all,
		},
		{
			Name:      "the address that a kubelet was given",
			Theirs:    "A Node whose kubelet was given an address (--node-ip) waits for ever unless that is the one that its machine's settings lead to.",
			Here:      "It gets that address, where the machine has it.",
			Why:       "Whoever gives it knows which one it is to be (#614, #1455, #1826).",
			Scenarios: `(provided|dual-provided)-(second|second-nic|six|four|both)`, Path: `\S+` + all,
		},
		{
			Name:      "addresses are written as is usual",
			Theirs:    "An address is written as the tools tell it: ::ffff:10.1.13.1, FD00:6:0:0:0:0:0:A.",
			Here:      "It is written in its usual form.",
			Why:       "Others compare addresses as texts.",
			Scenarios: `nic-mapped|dual(6|ranges)?-(mapped|long)|six-long`, Path: `\S+ addresses`,
		},
		{
			Name:      "metadata that cannot be read",
			Theirs:    "A machine with metadata for cloud-init that is broken, or packed in another way, leaves its Node waiting.",
			Here:      "It changes nothing: addresses come in the order of the interfaces.",
			Why:       "The machine has started with what it could read; its Node must not stay out for a preference.",
			Scenarios: `metadata-(network-(unknown|broken|no-gzip)|broken|no-yaml)`, Path: `\S+` + all,
		},
		{
			Name:      "Nodes whose machines are in no zone any more",
			Theirs:    "A Node that is initialized gets no addresses any more while its machine has no tags.",
			Here:      "Its addresses follow the machine. One that is not initialized waits here, too.",
			Why:       "Addresses have nothing to do with zones.",
			Scenarios: `zone-none-known`, Path: `\S+ addresses`,
		},
	}
}

// ofLives are those of what becomes of Nodes.
func ofLives() []compare.Intended {
	return []compare.Intended{
		{
			Name:      "Nodes that nothing is known of go",
			Theirs:    "A Node without a provider ID of which no vCenter knows anything stays for ever, also when it is not ready.",
			Here:      "It is deleted once it is not ready, within the limits of the deletion guard.",
			Why:       "What is left of a machine that is gone must go, too.",
			Scenarios: `life-dead-(known-no-id|known-nothing|new)`, Path: `\S+`,
		},
		{
			Name:      "machines that are off, and tell nothing",
			Theirs:    "A Node is not marked as shut down when the tools in its machine tell no host name or interfaces any more, as is usual when a machine is off.",
			Here:      "It is.",
			Why:       "Its volumes can be attached elsewhere.",
			Scenarios: `life-off-silent`, Path: `\S+ taints`,
		},
		{
			Name:      "machines that the vCenter has lost",
			Theirs:    "A Node is marked as shut down also when the vCenter has lost its machine (disconnected, inaccessible, orphaned) and remembers that it was off.",
			Here:      "It is not.",
			Why:       "Nobody knows whether it runs, and volumes must not be attached twice.",
			Scenarios: `life-(disconnected|inaccessible|orphaned)-off`, Path: `\S+ taints`,
		},
		{
			Name:      "Nodes of others stay",
			Theirs:    "A Node whose provider ID is another cloud's, or no UUID, is deleted when it is not ready.",
			Here:      "It is left alone.",
			Why:       "That a vCenter does not know it proves nothing.",
			Scenarios: `life-dead-(foreign|odd-id)`, Path: `\S+`,
		},
	}
}
