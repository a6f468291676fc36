package difference

func ofClassic() []Intended {
	return []Intended{
		{
			Name:   "refused before anything is made",
			Theirs: "What a classic load balancer cannot be is found out at AWS, or on the way: a Service that is never served has a finalizer, a security group that is left behind, and often a load balancer.",
			Here:   "What the Service alone tells is refused before any of it is made, and the event says which value is wrong.",
			Why:    "Nobody pays for a load balancer that no address leads to, and nothing is left.",
			Scenarios: `c-(check-(interval|port)-odd-[0-2]|check-(timeout|up)-odd-[01]|check-protocol-odd-[02]|cross-zone-odd-1|idle-odd-2` +
				`|logs-(no-bucket|odd-1)|no-nodeport|subnets-odd-0)`,
			Path: `(classic|rule|sg)\.[^.]*|service\.a\.finalizers`, Failed: true, Gone: true,
		},
		{
			Name:      "numbers of what is switched off do no harm",
			Theirs:    "An interval of access logs that AWS does not take is sent also where they are switched off: the Service is never served.",
			Here:      "It is not sent.",
			Why:       "It means nothing there.",
			Scenarios: `c-logs-interval-odd-1`, Path: `(classic|rule|sg)\..*|service\.a\.(failed|ingress)`, Failed: true,
		},
		{
			Name:      "nothing is left of a creation that failed",
			Theirs:    "The security group of a load balancer that could not be made stays when the Service is deleted.",
			Here:      "It goes with the Service.",
			Why:       "An account has a limit of security groups, and nobody else deletes it.",
			Scenarios: `c-(subnets-odd-3|ranges-6)`, Path: `sg\.[^.]*`, Failed: true, Gone: true,
		},
		{
			Name:      "members follow Nodes also while the Service cannot be as it wishes",
			Theirs:    "When a Service's change fails again as Nodes change, its load balancer keeps the instances that it had.",
			Here:      "They follow the Nodes.",
			Why:       "A Service that has an address must go on to be served.",
			Scenarios: `c-(protocol|affinity-later)`, Path: `classic\..*\.instances\..*`, Failed: true,
		},
		{
			Name:      "clients by IPv6",
			Theirs:    "A range of IPv6 in spec.loadBalancerSourceRanges is sent to EC2 as one of IPv4, which refuses it: the Service is never served.",
			Here:      "It becomes a rule for IPv6. Where there is no other, a Warning says that nobody can reach the load balancer, which has IPv4 alone.",
			Why:       "Clients of the other ranges are to be served.",
			Scenarios: `c-ranges-6`, Path: `classic\.[^.]*|rule\.[^.]*|sg\..*\.rules|service\.a\.(failed|ingress)`, Failed: true,
		},
		{
			Name:      "no annotation says whose an object is",
			Theirs:    "The annotation additional-resource-tags writes over the tags by which the Service's objects are known.",
			Here:      "Such tags are left out of it.",
			Why:       "A Service must not give away what is its own, nor take what is another's.",
			Scenarios: `c-tags-odd-3`, Path: `(classic|sg)\..*\.tags\.kubernetes\.io/service-name`,
		},
		{
			Name:      "one Service's groups do not close the Nodes for another",
			Theirs:    "A Service whose security groups change takes the rule of another load balancer out of the Nodes' group (issue 1472): its clients are cut off.",
			Here:      "Only what was let in of the Service's own group goes.",
			Why:       "Services must not harm each other.",
			Scenarios: `c-(plain-beside|groups-odd-0)`, Path: `rule\..* from \{sg:k8s-elb-lb:.*`, New: true,
		},
		{
			Name:      "what is let in of a group that others have stays",
			Theirs:    "When a load balancer with a group of the annotation or of ElbSecurityGroup goes, or gets other groups, the Nodes let nothing in of that group any more, also where other load balancers have it.",
			Here:      "That rule goes with the last of them, and where nothing else in the VPC has the group.",
			Why:       "The others' clients would be cut off.",
			Scenarios: `shared`, Path: `rule\.sg-0000000000000000a -1 0-0 from \{sg:(own|two)\}`, New: true,
		},
	}
}
