package difference

import (
	"slices"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
)

// AtTakeover is all that ours does when it is started on what the existing manager has left and has not failed at.
func AtTakeover() []compare.Exception {
	return slices.Concat(ofNodesAtTakeover(), ofServicesAtTakeover(), ofDualStackAtTakeover(), ofFailedAtTakeover())
}

// ofFailedAtTakeover are what ours takes away of Services at which the existing manager has failed.
func ofFailedAtTakeover() []compare.Exception {
	return []compare.Exception{
		{
			Name:  "Nodes that have left while nothing could be changed",
			What:  "Where the existing manager has failed at a Service's change, and does not follow Nodes any more, those that are gone are taken out of its load balancer.",
			Why:   "They serve nobody.",
			Match: `([cn]-affinity-later|[cn]-protocol), node leaves: elb(v2 DeregisterTargets| DeregisterInstancesFromLoadBalancer) .*:i-00000000000000001 .*`,
		},
		{
			Name: "what a port has spoken before",
			What: "Where the existing manager has failed to let a port speak another protocol, its listener is changed; the former target group and the rule for it go.",
			Why:  "It is what the Service asks for.",
			Match: `n-protocol, [a-z0-9 ]+: (elbv2 DeleteTargetGroup TargetGroupArn:\{group:n-protocol/a k8s-nprotoco-a-cf78bb9e69\}` +
				`|ec2 RevokeSecurityGroupIngress .* IpProtocol:tcp .*/client=\{lb:n-protocol/a\} .*)`,
		},
		{
			Name:  "ranges that could not be kept",
			What:  "Where the existing manager has failed at ranges of clients, of which one is of IPv6, the rules that let in everybody go.",
			Why:   "As above.",
			Match: `sm-ranges, change 1: ec2 RevokeSecurityGroupIngress .* Source\.CidrIp:0\.0\.0\.0/0 .*`,
		},
	}
}

func ofNodesAtTakeover() []compare.Exception {
	return []compare.Exception{
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
			Match: `n-(local|check-port), .*: ec2 RevokeSecurityGroupIngress .* ` +
				`Source\.Description:kubernetes\.io/rule/nlb/health=\{lb:n-(local|check-port)/a\} ToPort:(32\d\d\d|8080)`,
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
	}
}

func ofServicesAtTakeover() []compare.Exception {
	return []compare.Exception{
		{
			Name:  "what the existing manager does not tell AWS",
			What:  "`healthcheck-timeout`, and `healthcheck-unhealthy-threshold` without the healthy one, take effect on network load balancers.",
			Why:   "It is what the Service asks for; the existing manager reads them and does nothing.",
			Match: `n-check-(timeout|down), [a-z0-9 ]+: elbv2 ModifyTargetGroup (HealthCheckTimeoutSeconds:\d TargetGroupArn:\S+ \S+|TargetGroupArn:\S+ \S+ UnhealthyThresholdCount:\d)`,
		},
		{
			Name:  "load balancers that another Service is named at",
			What:  "A Service whose annotation `additional-resource-tags` has written over the tag `kubernetes.io/service-name` of its load balancer has a Warning and is not changed any more.",
			Why:   "By its tag the load balancer is another's. Take the tag out of the annotation, and correct the load balancer's.",
			Match: `c-tags-odd-3, [a-z0-9 ]+: service\.a(\.failed: was , is true| has a Warning SyncLoadBalancerFailed)`,
		},
		{
			Name:  "labels that no Node has",
			What:  "A Service whose annotation `target-node-labels` selects no Node has a Warning that nothing serves it.",
			Why:   "The existing manager says so only when the cluster has no Node.",
			Match: `[cn]-labels(-odd-2)?, [a-z0-9 ]+: service\.a has a Warning UnAvailableLoadBalancer`,
		},
		{
			Name: "wishes without an effect",
			What: "A Service has a Warning that asks for what its load balancer cannot be or become: IPv6, a port without a node port, another scheme or other subnets " +
				"than it was made with, tags that controllers go by, annotations that are not for its type, or that cloud.conf rules out.",
			Why: "The existing manager says nothing. The load balancer stays as it is.",
			Match: `(c-(ipv6|dual-stack|allocations|addresses|conf-check(-path)?)|h-check|n-(ipv6|dual-stack|no-nodeport|backend(-ssl|-odd-[02])?|proxy(-odd-[0-2])?|groups(-later|-odd-[0-2])?|only-classic` +
				`|(idle|draining|draining-timeout|logs-interval)-odd-0|internal(-later)?|subnets|check-timeout-odd-1)` +
				`|[cn]-(labels(-odd-2)?|tags-odd-3)), [a-z0-9 ]+: service\.a has a Warning LoadBalancerWarning`,
		},
		{
			Name:  "checks of any port",
			What:  "A Service whose `healthcheck-port` opens a port of all Nodes that is none of its own has a Warning.",
			Why:   "Whoever may make Services can open any port that way; the existing manager says nothing.",
			Match: `n-check-port, [a-z0-9 ]+: service\.a has a Warning LoadBalancerWarning`,
		},
	}
}
