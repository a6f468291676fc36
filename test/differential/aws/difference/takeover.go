package difference

// AtTakeover is all that ours does when it is started on what the existing manager has left and has not failed at.
func AtTakeover() []Exception {
	return []Exception{
		{
			Name:  "Nodes that nothing is known of",
			What:  "A Node that is not ready, without a provider ID, and whose name leads to no instance is deleted.",
			Why:   "It is what is left of a machine that is gone; the existing manager keeps it for ever.",
			Match: `(node-name-unknown-later|node-known-dead), change \d: node\..*, is `,
		},
		{
			Name:  "Nodes whose short name has the address",
			What:  "A Node that waits to be initialized, and whose name is the address of an instance without the domain, is found and initialized.",
			Why:   "The existing manager asks for the whole name alone, and leaves it waiting.",
			Match: `node-name-short, [a-z0-9 ]+: node\.ip-10-0-32-99\.(addresses|labels|providerID|taints): .*`,
		},
		{
			Name: "rules that another Service's change took away",
			What: "A rule of the Nodes' security group for a Service's load balancer comes back.",
			Why: "The existing manager revokes it when another Service stops using its own group (kubernetes/kops#4197): " +
				"the load balancer reaches no Node then.",
			Match: `(c-plain-beside|c-groups-odd-0|), change \d: ec2 AuthorizeSecurityGroupIngress GroupId:\{sg:nodes\} IpProtocol:-1 ` +
				`Source\.GroupId:\{sg:(own|two|k8s-elb-lb:c-(plain-beside|groups-odd-0)/a)\}`,
		},
		{
			Name: "rules for health checks of another port",
			What: "A rule that lets a network load balancer check a port that it does not check any more is revoked.",
			Why:  "The existing manager leaves it behind when the port is changed.",
			Match: `n-local, .*: ec2 RevokeSecurityGroupIngress .* Source\.Description:kubernetes\.io/rule/nlb/health=\{lb:n-local/a\} ` +
				`ToPort:32006`,
		},
		{
			Name:  "routes to instances with several interfaces",
			What:  "A Node with several interfaces gets its route, through the primary one.",
			Why:   "The existing manager names the instance, which EC2 refuses.",
			Match: `route-two-interfaces, create: (ec2 (ModifyNetworkInterfaceAttribute|CreateRoute) .*|node\..*\.networkUnavailable: was "True", is "False")`,
		},
		{
			Name:  "routes of deleted Nodes",
			What:  "A route goes that belongs to a Node that is gone, and whose instance is not.",
			Why:   "The existing manager reads no routes while there is one, and does nothing about any other.",
			Match: `route-goes, change 1: ec2 DeleteRoute DestinationCidrBlock:10\.100\.1\.0/24 RouteTableId:\S+`,
		},
		{
			Name: "routes to instances that are gone",
			What: "Such a route goes, and the Nodes get theirs.",
			Why:  "As above.",
			Match: `route-gone, create: ec2 DeleteRoute DestinationCidrBlock:10\.100\.9\.0/24 RouteTableId:\S+|` +
				`route-beside-gone, create: (ec2 (ModifyInstanceAttribute|CreateRoute) .*|node\..*\.networkUnavailable: was , is "False")`,
		},
		{
			Name:  "annotations of a check that is shared",
			What:  "A Service with annotations of its own health check has a Warning.",
			Why:   "By cloud.conf all network load balancers check the same; the existing manager says nothing.",
			Match: `h-check, create: service\.a has a Warning LoadBalancerWarning`,
		},
		{
			Name:  "wishes that AWS' load balancers do not fulfill",
			What:  "A Service of the family IPv6, or with a port that has no node port, has a Warning.",
			Why:   "Such load balancers are reached by IPv4 only, and send traffic to node ports; the existing manager says nothing.",
			Match: `(c-ipv6|n-ipv6|n-dual-stack|n-no-nodeport), [a-z0-9 ]+: service\.a has a Warning LoadBalancerWarning`,
		},
	}
}
