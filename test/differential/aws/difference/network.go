package difference

func ofNetwork() []Intended {
	return []Intended{
		{
			Name:      "what cannot be a network load balancer is refused before anything is made",
			Theirs:    "It is found out on the way, or at AWS: a Service that is never served has a finalizer, and often a load balancer.",
			Here:      "What the Service alone tells is refused before any of it is made, and the event says which value is wrong.",
			Why:       "Nobody pays for a load balancer that no address leads to, and nothing is to be cleaned up.",
			Scenarios: `n-(check-(interval|timeout|up|port)-odd-[0-2]|cross-zone-odd-1|logs-(no-bucket|odd-1)|ranges-6|subnets-odd-0)`,
			Path:      `(network|rule)\.[^.]*( from [0-9./]*)?|service\.a\.finalizers`, Failed: true, Gone: true,
		},
		{
			Name:      "a port can change what it speaks",
			Theirs:    "A port that turns from TCP to TLS or UDP, or back, would be a second listener, which AWS refuses for ever. The target group that was made for it is left, and Nodes are not followed any more.",
			Here:      "The port's listener is changed.",
			Why:       "A Service that has an address must go on to follow its spec and its Nodes.",
			Scenarios: `n-(protocol|certificate|certificate-later|ssl-ports)`,
			Path:      `network\..*\.listeners\.\d+\.(protocol|certificate|policy|group\.(name|protocol|targets\..*))|(group|rule)\..*|service\.a\.failed`, Failed: true,
		},
		{
			Name:      "a target group does not depend on the Service's port",
			Theirs:    "A Service whose port changes gets a new target group of the same node port, whose targets have to become healthy first.",
			Here:      "The listener of the new port sends to the target group that is there.",
			Why:       "Clients need not wait.",
			Scenarios: `n-port`, Path: `network\..*\.listeners\.8080\.group\.name`,
		},
		{
			Name:      "the unhealthy threshold counts by itself",
			Theirs:    "A changed healthcheck-unhealthy-threshold has no effect until the healthy one changes, too.",
			Here:      "It takes effect.",
			Why:       "It is what the Service asks for.",
			Scenarios: `n-check-down`, Phases: `change \d|node .*`, Path: `network\..*\.listeners\.80\.group\.check`,
		},
		{
			Name:      "the time that a check may take",
			Theirs:    "healthcheck-timeout is read, and AWS is not told of it.",
			Here:      "AWS is told.",
			Why:       "It is what the Service asks for (issue 822).",
			Scenarios: `n-check-timeout`, Path: `network\..*\.listeners\.80\.group\.check`,
		},
		{
			Name:      "rules of health checks go when nothing needs them",
			Theirs:    "When the port that is checked becomes the one that serves, the rules of Nodes for the former one stay for ever.",
			Here:      "They go.",
			Why:       "Nothing must stay open.",
			Scenarios: `n-check-port|n-local`, Phases: `change \d|node .*`, Path: `rule\.sg-0000000000000000a tcp (8080-8080|32\d\d\d-32\d\d\d) from 10\.0\.(0|16)\.0/20`, Gone: true,
		},
	}
}

// ofNetworkLater are those that show when Nodes and types come and go.
func ofNetworkLater() []Intended {
	return []Intended{
		{
			Name:      "targets follow Nodes also while the Service cannot be as it wishes",
			Theirs:    "When a Service's change fails again as Nodes change, its load balancer keeps the targets that it had.",
			Here:      "They follow the Nodes.",
			Why:       "A Service that has an address must go on to be served.",
			Scenarios: `n-affinity-later|n-to-classic|c-to-network`, Phases: `node .*`,
			Path: `network\..*\.targets\.[^.]*|classic\..*\.instances\.[^.]*|service\.a\.failed`, Failed: true,
		},
		{
			Name:      "nothing is left of the other type",
			Theirs:    "A Service whose type has changed is deleted as if it had a load balancer of the new type: the old one stays for ever.",
			Here:      "It goes with the Service.",
			Why:       "Nothing must be left (kubernetes/kubernetes#66306, #95042).",
			Scenarios: `n-to-classic|c-to-network`, Phases: `delete`, Path: `(classic|network|rule|sg)\..*`, Failed: true, Gone: true,
		},
		{
			Name:      "nothing is left of the other type, for all",
			Theirs:    "As above: the rule by which clients learn how large packets may be stays with it.",
			Here:      "It goes with the last Service.",
			Why:       "As above.",
			Scenarios: `shared`, Phases: `delete`, Path: `rule\.sg-0000000000000000a icmp 3-4 from 0\.0\.0\.0/0`, Gone: true,
		},
		{
			Name:      "who is named by a rule for all",
			Theirs:    "A rule for the health check that all Services share names the one that came first.",
			Here:      "It does, too.",
			Why:       "Which one that is, is chance.",
			Scenarios: `shared`, Path: `rule\.sg-0000000000000000a tcp 10256-10256 from 10\.0\.(0|16)\.0/20`, Both: true, Chance: true,
		},
		{
			Name:      "other controllers' Services are left alone",
			Theirs:    "A Service of the type nlb-ip or external gets the finalizer of load balancers all the same.",
			Here:      "It is left to aws-load-balancer-controller.",
			Why:       "Whoever serves it puts its own.",
			Scenarios: `t-type-[01]`, Path: `service\.a\.finalizers`, Gone: true,
		},
		{
			Name:      "other controllers' Services are left alone at first",
			Theirs:    "As above.",
			Here:      "It is left to aws-load-balancer-controller, until its type changes.",
			Why:       "As above.",
			Scenarios: `n-left-before`, Phases: `create`, Path: `service\.a\.finalizers`, Gone: true,
		},
		{
			Name:      "nothing is left of what another controller has taken over",
			Theirs:    "A Service whose type has become nlb-ip or external keeps its load balancer, which stays for ever when the Service goes.",
			Here:      "The load balancer stays for its clients, and goes with the Service.",
			Why:       "Nothing must be left.",
			Scenarios: `[cn]-left`, Phases: `delete`, Path: `(classic|network|rule|sg)\..*`, Gone: true,
		},
		{
			Name:      "nothing is left of what another controller has taken over, when the Service goes at once, or asks for nothing any more",
			Theirs:    "As above.",
			Here:      "As above.",
			Why:       "As above.",
			Scenarios: `c-left-gone|n-left-type`, Phases: `change 2|node .*|delete`, Path: `(classic|network|rule|sg)\..*`, Gone: true,
		},
	}
}
