package vpc

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
)

// The descriptions of rules for network load balancers, as the existing manager has them. Those for one load balancer go on with
// "=" and its name.
const (
	clientRule = "kubernetes.io/rule/nlb/client"
	healthRule = "kubernetes.io/rule/nlb/health"
	mtuRule    = "kubernetes.io/rule/nlb/mtu"
)

// wish is what one Service wants of one group.
type wish struct {
	rules atoms
	// covered are rules that are not needed beside rules, but may stay.
	covered atoms
}

// tenant is one Service's part of the groups.
type tenant struct {
	NodeRules
	gone   bool
	wishes map[string]wish // by groups
	answer *cloud.Result[[]string]
}

// newTenant makes a tenant whose instances are in the groups open. In those that it is unsure of, what it has stays.
func newTenant(t joint.Tenant[NodeRules], open, unsure []string) tenant {
	out := tenant{NodeRules: t.Desired, gone: t.Gone, wishes: map[string]wish{}}
	if t.Gone {
		return out
	}
	w := out.wish()
	for _, id := range unsure {
		out.wishes[id] = wish{covered: w.all()}
	}
	for _, id := range open {
		out.wishes[id] = w
	}
	return out
}

// wish is what the rules of a Service are in a group of its Nodes.
func (r NodeRules) wish() wish {
	w := wish{rules: atoms{}, covered: atoms{}}
	if r.Source != "" {
		w.rules[fromGroup(r.Source)] = ""
	}
	each := func(to atoms, description, protocol string, ports []int32, from []netip.Prefix) {
		for _, port := range ports {
			for a := range atomsOf([]Rule{{Protocol: protocol, From: port, To: port, CIDRs: from}}) {
				to[a] = description + "=" + r.LoadBalancer
			}
		}
	}
	everybody := len(r.Clients) == 1 && r.Clients[0].Bits() == 0 && len(family.Ranges(r.Subnets, r.Clients[0].Addr().Is4())) == 0
	health := w.rules
	if everybody && r.Protocol == "tcp" && slices.Equal(unique(r.Ports), unique(r.HealthPorts)) {
		health = w.covered
	}
	each(health, healthRule, "tcp", r.HealthPorts, r.Subnets)
	each(w.rules, clientRule, r.Protocol, r.Ports, r.Clients)
	return w
}

// all are the rules that a Service may have.
func (w wish) all() atoms {
	all := maps.Clone(w.rules)
	maps.Copy(all, w.covered)
	return all
}

func unique(ports []int32) []int32 { return slices.Compact(slices.Sorted(slices.Values(ports))) }

// fromGroup lets everything in from what has a group.
func fromGroup(id string) atom {
	return atom{protocol: allProtocols, from: -1, to: -1, source: id}
}

// byWhat finds the few tenants of a pass that a rule or a group may concern, so that many Services and groups are no more work than they
// have rules.
type byWhat struct {
	described, from, in map[string][]*tenant // by descriptions of rules, by their sources, and by groups with wishes
}

func indexed(tenants []tenant) byWhat {
	by := byWhat{map[string][]*tenant{}, map[string][]*tenant{}, map[string][]*tenant{}}
	for i := range tenants {
		t := &tenants[i]
		for _, rule := range []string{clientRule, healthRule} {
			by.described[rule+"="+t.LoadBalancer] = append(by.described[rule+"="+t.LoadBalancer], t)
		}
		for _, source := range []string{t.Source, t.Former, t.SharedFormer} {
			if source != "" {
				by.from[source] = append(by.from[source], t)
			}
		}
		for id := range t.wishes {
			by.in[id] = append(by.in[id], t)
		}
	}
	return by
}

// of are the tenants that may own a rule.
func (by byWhat) of(a atom, description string) []*tenant {
	return slices.Concat(by.described[description], by.from[a.source])
}

// groupRules are a group and what it lets in.
type groupRules struct {
	id     string
	has    atoms
	tagged bool // as the cluster's
	owed   atoms
	held   map[string]bool // the groups that something in the VPC has, as far as that was asked for
}

// plan is what to change in a group for some Services. It drops only what is provably theirs, and not wanted by another one of
// them, nor by others, which are known to want more. Where such a rule has the name of a Service that is gone, it is made anew
// under the other one's. What is owed to others, and still wanted, is made with the rest.
func (g groupRules) plan(by byWhat, others atoms) change {
	c := change{add: atoms{}, drop: atoms{}, again: atoms{}}
	wanted, theirs := atoms{}, len(by.in[g.id]) > 0
	maps.Copy(wanted, others)
	for _, t := range by.in[g.id] {
		for a, description := range t.wishes[g.id].rules {
			wanted[a] = description
			if _, there := g.has[a]; !there {
				c.add[a] = description
			}
		}
	}
	for a, description := range g.has {
		for _, t := range by.of(a, description) {
			if !t.owns(a, description, g) || t.wants(a, g.id) {
				continue
			}
			theirs = true
			if other, needed := wanted[a]; !needed {
				c.drop[a] = description
			} else if description != other {
				c.drop[a], c.again[a] = description, other
			}
		}
	}
	for a, description := range g.owed { // under the name that it was to have, also where several others want it
		_, needed := wanted[a]
		_, there := g.has[a]
		if _, added := c.add[a]; needed && !there && !added {
			c.add[a] = description
		}
	}
	if theirs {
		g.mtu(&c)
	}
	return c
}

// refuse tells each tenant for which a group was to be changed why it was not.
func (g groupRules) refuse(tenants []tenant, c change, err error) {
	for i := range tenants {
		if t := &tenants[i]; t.answer.Err == nil && len(g.changes(t, c)) > 0 {
			t.answer.Err = err
		}
	}
}

// tell tells each tenant what was changed for it.
func (g groupRules) tell(tenants []tenant, c change) {
	if len(c.add)+len(c.drop) == 0 {
		return
	}
	for i := range tenants {
		t := &tenants[i]
		t.answer.Value = append(t.answer.Value, g.changes(t, c)...)
	}
}

// changes are what a change does for a tenant.
func (g groupRules) changes(t *tenant, c change) []string {
	add, drop := 0, 0
	w, here := t.wishes[g.id]
	client := func(source string) bool {
		return slices.ContainsFunc(t.Clients, func(p netip.Prefix) bool { return source == p.Masked().String() })
	}
	for a, description := range c.add {
		_, its := w.rules[a]
		add += number(its || here && description == mtuRule && client(a.source))
	}
	for a, description := range c.drop {
		drop += number(t.owns(a, description, g))
	}
	return changes(g.id, add, drop)
}

// changes says what was changed of a group's rules, nothing where that is nothing.
func changes(group string, add, drop int) []string {
	if add+drop == 0 {
		return nil
	}
	return []string{fmt.Sprintf("rules of security group %s were set: %d added, %d removed", group, add, drop)}
}

// wants reports whether a tenant wants a rule in a group, or has it there for nothing.
func (t *tenant) wants(a atom, group string) bool {
	w := t.wishes[group]
	_, rule := w.rules[a]
	_, covered := w.covered[a]
	return rule || covered
}

// owns reports whether a rule of a group is provably the tenant's, so that it may go.
func (t *tenant) owns(a atom, description string, g groupRules) bool {
	if t.Frozen {
		return false
	}
	if t.LoadBalancer != "" && (description == clientRule+"="+t.LoadBalancer || description == healthRule+"="+t.LoadBalancer) {
		return true
	}
	if t.Former != "" && a == fromGroup(t.Former) {
		return true
	}
	if t.leaves(a, description, g) {
		return true
	}
	if t.Source == "" || t.SharedSource || t.Source == g.id || a != fromGroup(t.Source) {
		return false
	}
	return t.gone || g.tagged
}

// leaves reports whether a rule of a group may go, as it lets in what has another group, which nothing has any more. Whoever has described
// it has made it himself.
func (t *tenant) leaves(a atom, description string, g groupRules) bool {
	former := t.SharedFormer
	return former != "" && a == fromGroup(former) && description == "" && g.tagged && former != g.id && !g.held[former]
}

// mtu adds to a change that exactly the clients of network load balancers are told of smaller MTUs.
func (g groupRules) mtu(c *change) {
	next := maps.Clone(g.has)
	maps.DeleteFunc(next, func(a atom, _ string) bool { _, gone := c.drop[a]; return gone })
	maps.Copy(next, c.add)
	maps.Copy(next, c.again)
	wanted := atoms{}
	for a, description := range next {
		switch {
		case !strings.Contains(description, clientRule):
		case strings.Contains(a.source, ":"):
			wanted[atom{"icmpv6", 2, 0, a.source}] = mtuRule
		default:
			wanted[atom{"icmp", 3, 4, a.source}] = mtuRule
		}
	}
	for a := range wanted {
		if _, there := next[a]; !there {
			c.add[a] = mtuRule
		}
	}
	for a, description := range g.has {
		if _, needed := wanted[a]; !needed && description == mtuRule {
			c.drop[a] = description
		}
	}
}
