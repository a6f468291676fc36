package difference

import "github.com/isthmus-cloud/isthmus/test/differential/compare"

// ofDualStack are those of Services with IPv6 where subnets have it.
func ofDualStack() []Intended {
	return []Intended{
		{
			Name:      "Services with IPv6 are reached by it",
			Theirs:    "What a Service says of IP families means nothing: its load balancer is reached by IPv4 alone.",
			Here:      "It becomes dual-stack, and one of IPv4 again with the Service. A tag says that it was made so here.",
			Why:       "It is what the Service asks for (#1219, #243).",
			Scenarios: `s-(both|internal|later|ranges|required|six|six-first)|sm-.*`,
			Path:      `network\..*\.(addresses|tags\.isthmus-cloud\.github\.io/ip-address-type)`,
		},
		{
			Name:      "clients of IPv6 are let in",
			Theirs:    "A load balancer's own security group has rules for IPv4 alone.",
			Here:      "It has those for IPv6, too.",
			Why:       "As above.",
			Scenarios: `sm-.*`, Path: `sg\..*\.rules\.(tcp \d+-\d+|icmpv6 2-0) from ::/0`,
		},
		{
			Name:      "Nodes of Services with IPv6 alone are reached by it",
			Theirs:    "They are reached by IPv4, by which they do not serve such a Service: nobody does.",
			Here:      "Target groups and the rules of Nodes are of IPv6.",
			Why:       "Somebody must serve it.",
			Scenarios: `s-six`, Path: `network\..*\.listeners\.\d+\.group\.(addresses|name)|rule\..* from (0\.0\.0\.0|::)/0`,
		},
		{
			Name:      "clients of IPv6 are told of smaller MTUs",
			Theirs:    "There are none.",
			Here:      "Nodes that are reached by IPv6 let that in.",
			Why:       "As above.",
			Scenarios: `shared`, Path: `rule\..* icmpv6 2-0 from ::/0`, New: true,
		},
		{
			Name:      "ranges of IPv6 beside others",
			Theirs:    "A range of IPv6 in spec.loadBalancerSourceRanges is sent to EC2 as one of IPv4, which refuses it: the Service is not changed any more.",
			Here:      "It becomes a rule for IPv6.",
			Why:       "It is what the Service asks for.",
			Scenarios: `sm-ranges`, Path: `.*`, Failed: true,
		},
		{
			Name:      "ranges of IPv6 beside others, for all",
			Theirs:    "As above: clients in the ranges of IPv4 beside it are not told of smaller MTUs, either.",
			Here:      "Nodes let that in.",
			Why:       "As above.",
			Scenarios: `shared`, Phases: `change 1`, Path: `rule\.sg-0000000000000000a icmp 3-4 from 10\.0\.0\.0/8`, New: true,
		},
	}
}

// ofDualStackAtTakeover are those at a takeover.
func ofDualStackAtTakeover() []compare.Exception {
	return []compare.Exception{
		{
			Name: "IPv6",
			What: "The load balancer of a Service with IPv6 becomes dual-stack, with a tag that says so, where its subnets have IPv6. Who comes by IPv4 does not notice.",
			Why:  "It is what the Service asks for; the existing manager knows IPv4 alone.",
			Match: `(s-(both|internal|later|ranges|required|six|six-first)|sm-(both|ranges)), [a-z0-9 ]+: (elbv2 (AddTags .*ip-address-type.*|SetIpAddressType .*)` +
				`|network\..*\.(addresses|tags\.isthmus-cloud\.github\.io/ip-address-type): .*)|sm-(both|ranges), [a-z0-9 ]+: (ec2 AuthorizeSecurityGroupIngress .*::/0.*|sg\..*::/0.*)`,
		},
		{
			Name: "IPv6 alone",
			What: "Target groups of IPv6 take the place of those of IPv4, of a Service with IPv6 alone, and the rules of Nodes are for clients of IPv6.",
			Why:  "Its Nodes serve nobody by IPv4.",
			Match: `s-six, [a-z0-9 ]+: (elbv2 (CreateTargetGroup|RegisterTargets|ModifyListener|DeleteTargetGroup) .*|ec2 (Authorize|Revoke)SecurityGroupIngress .*` +
				`|network\..*\.group\.(addresses|name): .*|rule\..*)`,
		},
		{
			Name: "smaller MTUs",
			What: "Nodes that are reached by IPv6 let in what tells of smaller MTUs, and those of a Service with source ranges of IPv6, at which the existing " +
				"manager fails, do from its ranges.",
			Why: "As above.",
			Match: `, [a-z0-9 ]+: ec2 AuthorizeSecurityGroupIngress FromPort:(2 GroupId:\{sg:nodes\} IpProtocol:icmpv6 Source\.CidrIpv6:::/0` +
				`|3 GroupId:\{sg:nodes\} IpProtocol:icmp Source\.CidrIp:10\.0\.0\.0/8) Source\.Description:kubernetes\.io/rule/nlb/mtu ToPort:[04]`,
		},
		{
			Name:  "IPv6 that cannot be had",
			What:  "A Service with IPv6 has a Warning where its load balancer cannot be reached by it: of UDP, or with source ranges that could not be kept.",
			Why:   "The existing manager says nothing.",
			Match: `s-(ranges|udp), [a-z0-9 ]+: service\.a has a Warning LoadBalancerWarning`,
		},
	}
}

// ofDualStackBack are those when the existing manager takes back.
func ofDualStackBack() []compare.Exception {
	return []compare.Exception{
		{
			Name: "smaller MTUs by IPv6",
			What: "It takes the rules away by which load balancers and Nodes are told of smaller MTUs by IPv6. Load balancers stay dual-stack.",
			Why:  "It knows such rules for IPv4 alone.",
			Match: `(sm-(both|ranges))?, [a-z0-9 ]+: (ec2 RevokeSecurityGroupIngress FromPort:2 GroupId:\{sg:\S+\} IpProtocol:icmpv6 Source\.CidrIpv6:::/0 .*` +
				`|sg\.\S+\.rules\.icmpv6 2-0 from ::/0: was "", is )`,
		},
		{
			Name:  "Nodes of Services with IPv6 alone",
			What:  "It lets clients of IPv4 into Nodes for a Service with IPv6 alone, beside those of IPv6.",
			Why:   "It does not know that the load balancer reaches them by IPv6.",
			Match: `s-six, [a-z0-9 ]+: (ec2 AuthorizeSecurityGroupIngress .* Source\.CidrIp:0\.0\.0\.0/0 .*|rule\..* from 0\.0\.0\.0/0: was , is .*)`,
		},
	}
}
