package difference

import "slices"

// Differences are all those that are meant to be. The migration guide prints them.
func Differences() []Intended { return slices.Concat(whatIsServed(), whatStays(), whatIsRefused()) }

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
			Match: Match{Reached: OnlyOurs},
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
		{
			Name:  "a hostname that is none",
			OCCM:  "With an annotation `hostname` that the API server refuses in a status nothing is published any more.",
			Here:  "The address is published in its place.",
			Why:   "A Service that is served must say where.",
			Match: Match{Scenarios: `o-hostname-1|p-40|r-18|ro-24`, Path: `service\[.\]\.ingress\[.\]`},
		},
	}
}

// whatStays are those of what ours keeps as it is, where OCCM writes over it or what Octavia will not take again.
func whatStays() []Intended {
	return []Intended{
		{
			Name:  "values that Octavia takes only once",
			OCCM:  "A monitor's delay or timeout of 0, and SOURCE_IP_PORT on amphorae, are written with a new load balancer, where Octavia takes them; in any later request it refuses them, so that the Service's next change fails.",
			Here:  "They have the default from the beginning, and a Warning.",
			Why:   "The Service must go on to follow its spec.",
			Match: Match{Scenarios: `h-(delay|timeout)-o-2|o-method-3|p-16`, Path: `.*\.(healthmonitor\.(delay|timeout)|lb_algorithm)`},
		},
		{
			Name:  "a port belongs to one Service",
			OCCM:  "A second Service that wants a port of a shared load balancer fails, and yet writes its node ports into the first one's pool when a Node joins.",
			Here:  "It is refused, and the first one's traffic stays where it was.",
			Why:   "A Service must not get another's traffic.",
			Match: Match{Scenarios: `sh-same-port`, Path: `.*\.member\[.*\]\.protocol_port`, Reached: Neither},
		},
		{
			Name:  "what others publish stays",
			OCCM:  "When the owner of a shared load balancer becomes internal its floating IP is deleted, which the other Services go on publishing.",
			Here:  "It stays as long as another Service publishes it.",
			Why:   "Their clients use it.",
			Match: Match{Scenarios: `sh-owner-turns`, Path: `fip\[.*`, New: true},
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
			OCCM:  "A Service that cannot be served has the finalizer and the annotation load-balancer-id, or a load balancer, or listeners on another's, without an address.",
			Here:  "What the Service or cloud.conf alone tell to be impossible is refused before anything is made; nothing is to be cleaned up then. The annotations come with the address.",
			Why:   "No addresses and quota for what cannot work.",
			Match: Match{Path: `service\[.\]\.(finalizer\[.*\]|annotation\[.*load-balancer-id\])|lb\[.*`, Gone: true, Reached: Neither},
		},
		{
			Name:  "what is shared goes with the last",
			OCCM:  "When the Services of one load balancer are deleted at once it may leave the load balancer behind, and its floating IP; on a user's own it leaves an empty tag.",
			Here:  "It goes with the last of its Services, and a user's own has no tag of ours any more.",
			Why:   "Nothing must be left.",
			Match: Match{Scenarios: `sh-(plain|proxy|owner-turns|own-fip|own-proxy)`, Path: `(fip|lb)\[.*`, Gone: true},
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
