package openstack

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// RealRecordings is the folder, in testdata, of what OCCM has done in a real cloud; its folder "simulator" has the
// same scenarios in a simulator that is set up like that cloud.
const RealRecordings = "zed"

// SimulatorLike is the folder with the simulator's recordings of RealGroups.
func SimulatorLike(testdata string) string {
	return filepath.Join(testdata, RealRecordings, "simulator")
}

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

// Apart is a kind of difference between the simulator and the real cloud that is meant to be. Of its Match, Theirs is
// about the simulator's values and Ours about the real cloud's.
type Apart struct {
	Name, Why string
	Match
}

// RealDifferences are all of them.
func RealDifferences() []Apart {
	return []Apart{
		{
			Name:  "deleted at once",
			Why:   "Of Services that share a load balancer and are deleted at the same moment OCCM may leave the load balancer, with the tag of either, and its floating IP behind: it depends on which answer comes first.",
			Match: Match{Scenarios: `sh-(plain|second-turns)`, Path: `(fip|lb)\[[^]]*\](\.tags\[[^]]*\])?`},
		},
		{
			Name:  "another subnet",
			Why:   "The rules of a security group name the range of the subnet, which is not the same in both.",
			Match: Match{Scenarios: `c-groups-plain`, Path: `sg\[.*"remote_ip_prefix":"(\{net\}\.0\.0/18|10\.7\.0\.0/16)"\}\]`},
		},
	}
}

// CompareRecordings returns what a manager did otherwise in a real cloud than in the simulator, one line each, and the
// entries of RealDifferences that explain the rest.
func CompareRecordings(g *Group, simulated, real *Recording) (rest, explained []string, err error) {
	for _, r := range []*Recording{simulated, real} {
		if r.Digest != g.Digest() {
			return nil, nil, fmt.Errorf("group %s is another one than what was recorded (cloud %q)", g.Name, r.Cloud)
		}
	}
	var rules []*rule
	for _, a := range RealDifferences() {
		r, err := newRule(a.Match)
		if err != nil {
			return nil, nil, err
		}
		rules = append(rules, r)
	}
	for i, phase := range g.Phases() {
		for _, s := range g.Scenarios {
			all, err := Compare(s.Name, phase, simulated.State(s.Name, i), real.State(s.Name, i))
			if err != nil {
				return nil, nil, err
			}
			for j := range all {
				d := &all[j]
				if strings.HasSuffix(d.Path, ".failed") && simulated.Failed(s.Name, i) && real.Failed(s.Name, i) {
					continue // whether it was tried again within the phase does not matter
				}
				if n := slices.IndexFunc(rules, func(r *rule) bool { return r.matches(d) }); n >= 0 {
					explained = append(explained, RealDifferences()[n].Name)
					continue
				}
				rest = append(rest, fmt.Sprintf("%s, %s: %s: the simulator has %s, the real cloud %s", d.Scenario, d.Phase, d.Path, orNone(d.OCCM), orNone(d.Ours)))
			}
		}
	}
	return rest, explained, nil
}
