package difference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
)

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
func CompareRecordings(g *script.Group, simulated, real *recording.Recording) (rest, explained []string, err error) {
	for _, r := range []*recording.Recording{simulated, real} {
		if r.Digest != script.Digest(g) {
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
				rest = append(rest, fmt.Sprintf("%s, %s: %s: the simulator has %s, the real cloud %s", d.Scenario, d.Phase, d.Path, compare.OrNone(d.OCCM), compare.OrNone(d.Ours)))
			}
		}
	}
	return rest, explained, nil
}
