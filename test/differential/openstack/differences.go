package openstack

// Differences are all those that are meant to be. The migration guide prints them.
func Differences() []Intended { return append(whatIsServed(), whatIsRefused()...) }

// whatIsServed are those of Services that ours serves, or serves otherwise.
func whatIsServed() []Intended {
	return []Intended{
		{
			Name:  "owner's mark",
			OCCM:  "A load balancer has a tag for each Service that uses it.",
			Here:  "It has one more, `isthmus-cluster=<UID of the namespace kube-system>`.",
			Why:   "Two clusters of the same name in one project must not take each other's load balancers.",
			Match: Match{Path: `lb\[.*\]\.tags(\[isthmus-cluster=.*\])?`, Ours: "true|isthmus-cluster"},
		},
		{
			Name:  "it goes on where OCCM fails",
			OCCM:  "It fails and tries again for ever, with what it has made until then: a listener cannot become HTTP or TLS (409), Octavia refuses a value, a name is too long, there is no Node yet, a pool is still being created.",
			Here:  "The Service is served: listeners are replaced, what Octavia would refuse has its default and a Warning, names are cut.",
			Why:   "A Service that has an address must go on to follow its Nodes.",
			Match: Match{Failing: true},
		},
		{
			Name:  "policy Local is always checked",
			OCCM:  "`externalTrafficPolicy: Local` without `create-monitor` or its annotation has no health monitor: Nodes without endpoints get a share of the connections, and drop them.",
			Here:  "It always has one (HTTP on the health check node port; on ovn a plain one).",
			Why:   "Connections must not be lost for want of a setting.",
			Match: Match{Scenarios: `.*local.*|r-.*|ro-.*`, Path: `.*\.(healthmonitor|member\[.*\]\.monitor_port)`, New: true},
		},
		{
			Name:  "members are in a subnet of their family",
			OCCM:  "Members of an IPv6 Service get the IPv4 subnet of cloud.conf, and with network-id alone none.",
			Here:  "They get the subnet of their Node's address.",
			Why:   "With a wrong subnet the data plane cannot reach them.",
			Match: Match{Path: `.*\.member\[.*\]\.subnet_id`},
		},
		{
			Name:  "both families",
			OCCM:  "Of a dual-stack Service only the first family is served.",
			Here:  "Where Octavia can, the second has a VIP of its own, and the listeners then have no allowed_cidrs, which the amphora driver could not open.",
			Why:   "`PreferDualStack` asks for both.",
			Match: Match{Scenarios: `(d|do|n-mixed-ip-f)-(46|64).*`},
		},
		{
			Name:  "affinity can change",
			OCCM:  "Session affinity is set when a pool is made, and never again.",
			Here:  "A change takes effect.",
			Why:   "It is what the Service asks for.",
			Match: Match{Path: `.*\.session_persistence`},
		},
	}
}

// whatIsRefused are those of what ours gives up, refuses or leaves alone.
func whatIsRefused() []Intended {
	return []Intended{
		{
			Name:  "groups leave Nodes that leave",
			OCCM:  "The ports of Nodes that are members no longer keep a Service's security group; the group then cannot be deleted, and the Service stays in deletion or the group is left behind.",
			Here:  "It is taken off their ports, and goes with the Service.",
			Why:   "Nothing must be left, and nothing stay open.",
			Match: Match{Scenarios: `c-groups.*|r-.*`, Path: `sg\[.*\](\.ports.*)?|service\[a\]`},
		},
		{
			Name:  "refused before anything is made",
			OCCM:  "A Service that cannot be served has the finalizer and the annotation load-balancer-id, or a load balancer without an address.",
			Here:  "What the Service or cloud.conf alone tell to be impossible is refused before anything is made; nothing is to be cleaned up then.",
			Why:   "No addresses and quota for what cannot work.",
			Match: Match{Scenarios: `o-.*|h-.*|p-.*|r-.*|ro-.*|k-.*|n-.*|c-.*|d-.*|do-.*|ovn-.*`, Path: `service\[.\]\.(finalizer\[.*\]|annotation\[.*load-balancer-id\])`, Theirs: `true|lb:`, Gone: true},
		},
		{
			Name:  "selectors as Kubernetes has them",
			OCCM:  "`node-selector` knows `key=value` and `key`; with `zone!=a`, `zone==a` or blanks inside it selects no Node.",
			Here:  "It takes whatever `kubectl --selector` takes.",
			Why:   "An empty pool helps nobody.",
			Match: Match{Scenarios: `o-selector-.*|p-11`, Path: `.*\.member`, New: true},
		},
		{
			Name:  "a name alone is no evidence",
			OCCM:  "It takes any load balancer of the Service's name, whoever has made it.",
			Here:  "One that is not marked is taken only with evidence: the annotation load-balancer-id, or a published address.",
			Why:   "Two clusters may have the same name.",
			Match: Match{Scenarios: `g-name.*`},
		},
	}
}

// Defects are the known ones.
func Defects() []Defect {
	return []Defect{
		{What: "no external network, several, floating subnets", Match: Match{Scenarios: `n-none.*|n-several.*|o-fsub.*|o-ftags.*|o-fnet.*`}},
		{What: "an empty lb-method, numbers of monitors that Octavia refuses", Match: Match{Scenarios: `.*method.*|h-.*`}},
		{What: "spec.loadBalancerIP over an attached address", Match: Match{Scenarios: `g-fip-later|s-ip.*`}},
		{What: "sharing", Match: Match{Scenarios: `sh-.*`}},
		{What: "pairs and random Services that nobody has looked at yet", Match: Match{Scenarios: `o-.*|p-.*|r-.*|ro-.*|ovn-limit|o-hostname.*|c-internal.*`}},
	}
}
