package difference

import "github.com/isthmus-cloud/isthmus/test/differential/compare"

// AtTakeover is all that ours does then beside marking load balancers.
func AtTakeover() []compare.Exception {
	return []compare.Exception{
		{
			Name:  "affinity that OCCM did not take off or put on",
			What:  "A session affinity that was changed, which OCCM ignores, takes effect: one call for each pool.",
			Why:   "It is what the Service asks for.",
			Match: `(?s)s-affinity.*session_persistence.*`,
		},
		{
			Name:  "groups on ports of Nodes that are no members",
			What:  "Where security groups are managed, a Service's group is taken off the ports of Nodes that have left its members, and put on those of members that lack it.",
			Why:   "OCCM never takes it off, so that the node ports stay open there; working on several Services at once it loses groups of ports.",
			Match: `(?s)[^,]*, (create|node leaves|change \d): taking over made the call PUT /ports/.*"security_groups".*`,
		},
		{
			Name:  "selectors that OCCM did not understand",
			What:  "A `node-selector` such as `zone!=a`, by which OCCM selects no Node, selects what `kubectl` selects by it.",
			Why:   "The load balancer had no members.",
			Match: `(?s)(o-selector-[0-9]+|p-11), .*/members .*`,
		},
		{
			Name:  "a hostname that is none",
			What:  "With an annotation `hostname` that the API server refuses in a status the address is published instead.",
			Why:   "OCCM publishes nothing any more, and what it has published before stays.",
			Match: `(?s)(o-hostname-1|p-40|r-18|ro-24), .*taking over published .*`,
		},
		{
			Name:  "values that Octavia takes only once",
			What:  "A monitor's delay or timeout of 0 becomes the default.",
			Why:   "Octavia has taken it with the new load balancer and refuses it from then on, so that OCCM fails at the Service's next change.",
			Match: `(?s)h-(delay|timeout)-o-2, create: taking over made the call PUT /lbaas/healthmonitors/.*`,
		},
		{
			Name:  "ports that health checks ask",
			What:  "Members with an HTTP monitor get the health check node port, which OCCM leaves out with `provider-requires-serial-api-calls`.",
			Why:   "The monitor asks the node port for /healthz, which the application answers as it likes.",
			Match: `(?s)c-serial-monitor-local, .*taking over made the call PUT /lbaas/pools/.*/members .*`,
		},
		{
			Name:  "what OCCM has failed at",
			What:  "A Service that is not internal any more gets its floating IP, and publishes it, although the name of the cluster is long.",
			Why:   "With it the description that OCCM gives is longer than Neutron takes.",
			Match: `(?s)c-cluster-internal, (change \d|node leaves): taking over published .*`,
		},
		{
			Name:  "addresses that are gone",
			What:  "A Service that shares a load balancer whose owner has become internal has a Warning, and keeps what it has published.",
			Why:   "OCCM has deleted the floating IP that it publishes; only the owner may have another made.",
			Match: `(?s)sh-owner-turns, .*ours fails at.*`,
		},
	}
}
