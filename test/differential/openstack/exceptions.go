package openstack

import (
	"regexp"
	"sync"
)

// Exception is what ours does at a takeover beside marking a load balancer, where OCCM has not failed.
type Exception struct {
	Name string
	// What it does and why; the guide prints both.
	What, Why string
	// Match is what a whole complaint must match.
	Match string
	// Defect says that it is not meant to be and will go.
	Defect bool
}

// Exceptions sorts complaints about a takeover. Its methods may be called concurrently.
type Exceptions struct {
	mu   sync.Mutex
	list []*regexp.Regexp
	hits []int
}

// NewExceptions makes one of AtTakeover.
func NewExceptions() (*Exceptions, error) {
	e := &Exceptions{}
	for _, x := range AtTakeover() {
		match, err := regexp.Compile("^(?:" + x.Match + ")$")
		if err != nil {
			return nil, err
		}
		e.list = append(e.list, match)
	}
	e.hits = make([]int, len(e.list))
	return e, nil
}

// Excuses reports whether the list has a complaint.
func (e *Exceptions) Excuses(complaint string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, match := range e.list {
		if match.MatchString(complaint) {
			e.hits[i]++
			return true
		}
	}
	return false
}

// Idle are the entries that no complaint has matched, known defects aside.
func (e *Exceptions) Idle() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for i, x := range AtTakeover() {
		if e.hits[i] == 0 && !x.Defect {
			out = append(out, x.Name)
		}
	}
	return out
}

// AtTakeover is all that ours does then beside marking load balancers.
func AtTakeover() []Exception {
	return []Exception{
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
			Match: `(?s)(o-hostname-1|p-40|r-18), .*taking over published .*`,
		},
		{
			Name:  "floating IPs that OCCM could not make",
			What:  "A Service that is not internal any more gets its floating IP, and publishes it, although the cluster's name is long.",
			Why:   "With it the description that OCCM gives is longer than Neutron takes.",
			Match: `(?s)c-cluster-internal, .*taking over published .*`,
		},
		{
			Name:  "health checks of policy Local in serial mode",
			What:  "With `provider-requires-serial-api-calls` the members of a Service of policy Local get the port that its HTTP health checks are for.",
			Why:   "OCCM leaves it out, so that the checks ask the Service's own port for `/healthz`.",
			Match: `(?s)c-serial-monitor-local, .*/members .*`,
		},
		{
			Name:  "what OCCM has not looked at again",
			What:  "A Service that shares a load balancer whose owner has become internal, or whose `member-subnet-id` is no ID any more, gets a Warning.",
			Why:   "OCCM fails at it as soon as it works on the Service again. Its members follow the Nodes all the same.",
			Match: `(?s)(sh-owner-turns|ro-8), .*ours fails at.*`,
		},
	}
}
