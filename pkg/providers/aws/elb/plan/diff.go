package plan

import (
	"slices"
	"strings"
)

// The names of policies, as the existing manager gives them.
const (
	ProxyPolicy     = "k8s-proxyprotocol-enabled"
	sslPolicyPrefix = "k8s-SSLNegotiationPolicy-"
)

// Observed is a load balancer as it is.
type Observed struct {
	DNSName         string
	Internal        bool
	Subnets, Groups []string
	Listeners       []Listener
	// ListenerPolicies are by ports of listeners, BackendPolicies by ports of instances; Policies are the names of all.
	ListenerPolicies, BackendPolicies map[int32][]string
	Policies                          []string
	Check                             HealthCheck
	Instances                         []string
	Tags                              map[string]string
	Attributes                        Attributes
}

// Wanted is what a load balancer shall be by now: Desired, with what was found for it.
type Wanted struct {
	*Desired
	// Subnets, Groups and Instances are IDs; Tags are all that it shall have, the cluster's too.
	Subnets, Groups, Instances []string
	Tags                       map[string]string
}

// Policy is a policy with its one attribute.
type Policy struct {
	Name, Type string
	Attribute  [2]string
}

// ListenerPolicy is a listener's policy.
type ListenerPolicy struct {
	Port   int32
	Policy string
}

// BackendPolicy says whether a port of instances gets the PROXY protocol.
type BackendPolicy struct {
	Port  int32
	Proxy bool
}

// Changes are what makes a load balancer so, in the order in which they are made. What is empty or nil stays.
type Changes struct {
	Tags map[string]string
	// AttachFirst says that subnets are added before others are removed, as one must stay.
	Detach, Attach []string
	AttachFirst    bool
	Groups         []string
	// Closed are ports of instances whose policy goes before their listener does.
	Closed          []BackendPolicy
	RemoveListeners []int32
	AddListeners    []Listener
	Policies        []Policy
	Backends        []BackendPolicy
	SSL             []ListenerPolicy
	Attributes      *Attributes
	Check           *HealthCheck
	// Instances are registered before others are deregistered.
	Register, Deregister []string
}

// Diff is what must change. What a load balancer has beside is left alone: tags, policies that nothing uses.
func Diff(o *Observed, w *Wanted) Changes {
	c := Changes{Attach: without(w.Subnets, o.Subnets), Detach: without(o.Subnets, w.Subnets)}
	c.AttachFirst = len(c.Detach) == len(o.Subnets)
	for key, value := range w.Tags {
		if has, there := o.Tags[key]; !there || has != value {
			if c.Tags == nil {
				c.Tags = map[string]string{}
			}
			c.Tags[key] = value
		}
	}
	if len(without(w.Groups, o.Groups))+len(without(o.Groups, w.Groups)) > 0 {
		c.Groups = w.Groups
	}
	for _, l := range o.Listeners {
		if !slices.ContainsFunc(w.Listeners, l.equal) {
			c.RemoveListeners = append(c.RemoveListeners, l.Port)
		}
	}
	for _, l := range w.Listeners {
		if !slices.ContainsFunc(o.Listeners, l.equal) {
			c.AddListeners = append(c.AddListeners, l)
		}
	}
	c.policies(o, w)
	if !w.heldBy(&o.Attributes) {
		c.Attributes = &w.Attributes
	}
	if !w.Check.equal(o.Check) {
		c.Check = &w.Check
	}
	c.Register, c.Deregister = without(w.Instances, o.Instances), without(o.Instances, w.Instances)
	return c
}

// Members is what must change for instances to be registered, those and no others.
func Members(o *Observed, instances []string) Changes {
	return Changes{Register: without(instances, o.Instances), Deregister: without(o.Instances, instances)}
}

// policies adds what changes of policies.
func (c *Changes) policies(o *Observed, w *Wanted) {
	if w.Proxy && !slices.Contains(o.Policies, ProxyPolicy) {
		c.Policies = append(c.Policies, Policy{ProxyPolicy, "ProxyProtocolPolicyType", [2]string{"ProxyProtocol", "true"}})
	}
	ssl := sslPolicyPrefix + w.SSLPolicy
	if w.SSLPolicy != "" && !slices.Contains(o.Policies, ssl) {
		c.Policies = append(c.Policies, Policy{ssl, "SSLNegotiationPolicyType", [2]string{"Reference-Security-Policy", w.SSLPolicy}})
	}
	var served []int32
	for _, l := range w.Listeners {
		has := slices.Contains(o.BackendPolicies[l.InstancePort], ProxyPolicy)
		if has != w.Proxy && !slices.Contains(served, l.InstancePort) {
			c.Backends = append(c.Backends, BackendPolicy{l.InstancePort, w.Proxy})
		}
		served = append(served, l.InstancePort)
		if !l.endsTLS() || w.SSLPolicy == "" {
			continue
		}
		if stays := slices.ContainsFunc(o.Listeners, l.equal); !stays || !slices.Equal(o.ListenerPolicies[l.Port], []string{ssl}) {
			c.SSL = append(c.SSL, ListenerPolicy{l.Port, ssl})
		}
	}
	for _, l := range o.Listeners {
		if len(o.BackendPolicies[l.InstancePort]) > 0 && !slices.Contains(served, l.InstancePort) {
			c.Closed = append(c.Closed, BackendPolicy{l.InstancePort, false})
			served = append(served, l.InstancePort)
		}
	}
}

// Summary says in few words what changes, sorted as it is made.
func (c *Changes) Summary() (out []string) {
	for _, part := range []struct {
		is   bool
		what string
	}{
		{len(c.Tags) > 0, "tags"}, {len(c.Detach)+len(c.Attach) > 0, "subnets"}, {len(c.Groups) > 0, "security groups"},
		{len(c.RemoveListeners)+len(c.AddListeners) > 0, "listeners"},
		{len(c.Policies)+len(c.Backends)+len(c.SSL)+len(c.Closed) > 0, "policies"},
		{c.Attributes != nil, "attributes"}, {c.Check != nil, "health check"}, {len(c.Register)+len(c.Deregister) > 0, "instances"},
	} {
		if part.is {
			out = append(out, part.what)
		}
	}
	return out
}

// equal compares listeners: AWS writes protocols in capital letters, and ARNs mean the same in any.
func (l Listener) equal(o Listener) bool {
	return l.Port == o.Port && l.InstancePort == o.InstancePort && strings.EqualFold(l.Protocol, o.Protocol) &&
		strings.EqualFold(l.InstanceProtocol, o.InstanceProtocol) && strings.EqualFold(l.Certificate, o.Certificate)
}

func (h HealthCheck) equal(o HealthCheck) bool {
	a, b := h.Target, o.Target
	protocol, rest, _ := strings.Cut(a, ":")
	otherProtocol, otherRest, _ := strings.Cut(b, ":")
	h.Target, o.Target = "", ""
	return h == o && strings.EqualFold(protocol, otherProtocol) && rest == otherRest
}

// heldBy reports whether o has all that is wanted.
func (a *Attributes) heldBy(o *Attributes) bool {
	number := func(want, has *int32) bool { return want == nil || has != nil && *want == *has }
	word := func(want, has string) bool { return want == "" || want == has }
	return a.CrossZone == o.CrossZone && a.LogEnabled == o.LogEnabled && a.Draining == o.Draining && a.IdleTimeout == o.IdleTimeout &&
		word(a.LogBucket, o.LogBucket) && word(a.LogPrefix, o.LogPrefix) && number(a.LogInterval, o.LogInterval) &&
		number(a.DrainingTimeout, o.DrainingTimeout)
}

// without are those of all that are not among others, in the order of all.
func without(all, others []string) []string {
	var out []string
	for _, s := range all {
		if !slices.Contains(others, s) {
			out = append(out, s)
		}
	}
	return out
}
