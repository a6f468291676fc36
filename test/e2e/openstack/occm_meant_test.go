//go:build e2e && occm

package e2e

import (
	"regexp"
	"slices"
	"strings"
)

// meant is a change that one manager makes to what the other has made, and has to.
type meant struct {
	by    string         // OCCM or ours
	kinds string         // the name of the kinds
	call  *regexp.Regexp // method and path; nil where other calls make it
	// objects are what is below this in an inventory, field what changes of them; all without.
	objects, field string
	why            string
}

// allMeant are all of them.
func allMeant() []meant {
	const checked = "Policy Local without health monitors, as OCCM makes it, gives Nodes without endpoints a share of the connections, which they drop: ours adds monitors."
	monitors := regexp.MustCompile(`^(PUT /v2\.0/lbaas/pools/[0-9a-f-]{36}(/members)?|(POST|DELETE) /v2\.0/lbaas/healthmonitors(/[0-9a-f-]{36})?)$`)
	return []meant{
		{by: "ours", kinds: "local", call: monitors, objects: "lbaas/healthmonitors/", why: checked},
		{by: "ours", kinds: "local", objects: "lbaas/pools/", field: "healthmonitor_id", why: checked},
		{by: "ours", kinds: "local", objects: "lbaas/pools/", field: "monitor_port", why: checked},
		{by: "OCCM", kinds: "local", call: monitors, objects: "lbaas/healthmonitors/", why: checked},
		{by: "OCCM", kinds: "local", objects: "lbaas/pools/", field: "healthmonitor_id", why: checked},
		{by: "OCCM", kinds: "local", objects: "lbaas/pools/", field: "monitor_port", why: checked},
		{
			by: "OCCM", kinds: "configured", call: regexp.MustCompile(`^PUT /v2\.0/lbaas/healthmonitors/[0-9a-f-]{36}$`), objects: "lbaas/healthmonitors/", field: "name",
			why: "At a change of the Nodes OCCM gives the health monitors of a Service that shares a load balancer its owner's name, and takes it back at the next change of the Service.",
		},
		{
			by: "ours", kinds: "configured", call: regexp.MustCompile(`^PUT /v2\.0/ports/[0-9a-f-]{36}`), objects: "ports/", field: "security_groups",
			why: "OCCM leaves a Service's security group on the ports of Nodes that are members no longer, where it keeps node ports open and cannot be deleted: ours takes it off.",
		},
	}
}

// cannotDelete says that a manager cannot delete all Services at once: OCCM where it manages security
// groups and a Node has left, whose port carries them still, and where Services share a load balancer,
// which it may leave behind (recorded as sh-plain).
func (m *running) cannotDelete() bool {
	return m.name == "OCCM" && slices.Contains([]string{"configured", "ovn", "addresses"}, m.s.kinds.name)
}

// meantCall reports whether a change is meant.
func (m *running) meantCall(c call) bool {
	return slices.ContainsFunc(allMeant(), func(x meant) bool {
		return x.by == m.name && x.kinds == m.s.kinds.name && x.call != nil && x.call.MatchString(c.method+" "+c.path)
	})
}

// leaveMeant takes out of inventories what may differ.
func (m *running) leaveMeant(all ...inventory) {
	for _, x := range allMeant() {
		if x.by != m.name || x.kinds != m.s.kinds.name {
			continue
		}
		for _, i := range all {
			for id, o := range i {
				switch {
				case !strings.HasPrefix(id, x.objects) || x.objects == "":
				case x.field == "":
					delete(i, id)
				default:
					delete(o, x.field)
				}
			}
		}
	}
}
