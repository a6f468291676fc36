package script

import "strings"

// RealGroups are scenarios of Groups that are played in a real cloud, too: OpenStack Zed as hack/openstack
// installs it, whose Octavia has no jobboard and whose Neutron has its default policy.
func RealGroups() []Group {
	known := map[string]Scenario{}
	for _, g := range Groups() {
		for _, s := range g.Scenarios {
			known[s.Name] = s
		}
	}
	group := func(name, conf string, names ...string) Group {
		g := Group{Name: name, World: World{Stuck: true, Hidden: true}, Conf: conf, Nodes: usualNodes(), Joins: third()}
		for _, n := range names {
			g.Scenarios = append(g.Scenarios, known[n])
		}
		return g
	}
	return []Group{
		group("zed-serial", usualConf+"provider-requires-serial-api-calls = true\n",
			"c-serial-plain", "c-serial-internal", "c-serial-external", "c-serial-mixed", "c-serial-local", "c-serial-ranges", "c-serial-proxy"),
		group("zed-ovn", ovnConf, "ovn-plain", "ovn-internal", "ovn-affinity", "ovn-local", "ovn-ranges", "ovn-keep", "ovn-proxy"),
		group("zed-spec", usualConf, "s-plain", "s-nodeport", "s-port", "s-protocol", "s-mixed", "s-local", "s-local-monitor", "s-affinity",
			"s-affinity-later", "s-ranges", "s-ip", "s-ip-internal", "s-ip-odd", "s-type", "s-recreate"),
		group("zed-annotations", usualConf, "v-internal", "v-client", "v-limit", "v-xff", "v-proxy", "v-method", "v-selector", "v-monitor",
			"v-keep", "v-hostname", "h-delay"),
		// The real external network has one subnet.
		group("zed-odd", usualConf+strings.ReplaceAll(gold, "{ext.2}", "{ext.1}"), "k-gold", "k-gold-internal", "k-net", "k-none",
			"o-internal-0", "o-client-0", "o-limit-0", "o-limit-4", "o-proxy-0", "o-selector-2", "o-method-1", "o-fsub-8"),
		group("zed-shared", usualConf, "sh-plain", "sh-first-goes", "sh-second-goes", "sh-second-turns", "sh-own", "sh-own-fip"),
		// One Service alone: working on several at once OCCM loses groups of ports, not always the same ones.
		group("zed-groups", usualConf+"manage-security-groups = true\n", "c-groups-plain"),
	}
}
