package script

import (
	"fmt"
	"math/rand/v2"
)

// randomGroups are pairs of annotations, and Services drawn at random, always the same ones.
func randomGroups() []Group {
	rng := rand.New(rand.NewPCG(10, 2026)) //nolint:gosec // no secret
	return []Group{
		{Name: "pairs", Conf: usualConf + gold, Nodes: usualNodes(), Joins: third(), Scenarios: pairs(rng, 60)},
		{Name: "random", Conf: usualConf + "create-monitor = true\nmanage-security-groups = true\n" + gold, Nodes: usualNodes(), Joins: third(), Scenarios: drawn(rng, 40)},
		{Name: "random-ovn", Conf: ovnConf, Nodes: usualNodes(), Joins: third(), Scenarios: drawnOVN(rng, 25)},
	}
}

// draw picks an annotation with a value, valid three times of four.
func draw(rng *rand.Rand, from []value) (name, value string) {
	v := from[rng.IntN(len(from))]
	if len(v.valid) > 0 && (len(v.odd) == 0 || rng.IntN(4) > 0) {
		return v.name, v.valid[rng.IntN(len(v.valid))]
	}
	return v.name, v.odd[rng.IntN(len(v.odd))]
}

func pairs(rng *rand.Rand, n int) []Scenario {
	all := append(vocabulary(), monitors()...)
	var out []Scenario
	for i := range n {
		annotations := map[string]string{}
		for len(annotations) < 2 {
			name, value := draw(rng, all)
			annotations[name] = value
		}
		name, value := draw(rng, all)
		out = append(out, one(fmt.Sprintf("p-%d", i), annotations, addPort(), annotate(name, value)))
	}
	return out
}

func drawn(rng *rand.Rand, n int) []Scenario {
	return drawnFrom(rng, n, "r", append(vocabulary(), monitors()...))
}

func drawnOVN(rng *rand.Rand, n int) []Scenario {
	var some []value
	for _, v := range append(vocabulary(), monitors()...) {
		if v.ovn {
			some = append(some, v)
		}
	}
	return drawnFrom(rng, n, "ro", some)
}

// drawnFrom are Services with up to three annotations and something in their spec, which change twice.
func drawnFrom(rng *rand.Rand, n int, name string, from []value) []Scenario {
	specs := []string{"", "", "", udp, mixed, local, `{"spec":{"sessionAffinity":"ClientIP"}}`, `{"spec":{"loadBalancerSourceRanges":["10.0.0.0/8"]}}`, manyPorts(3)}
	var out []Scenario
	for i := range n {
		annotations := map[string]string{}
		for range rng.IntN(4) {
			k, v := draw(rng, from)
			annotations[k] = v
		}
		s := with(fmt.Sprintf("%s-%d", name, i), specs[rng.IntN(len(specs))], annotations)
		for range 2 {
			k, v := draw(rng, from)
			if rng.IntN(3) == 0 {
				s.Steps = append(s.Steps, addPort())
				continue
			}
			s.Steps = append(s.Steps, annotate(k, v))
		}
		out = append(out, s)
	}
	return out
}
