package main

import (
	"fmt"
	"slices"
	"strings"
)

// The cases that others are measured in.
const (
	ecrAsNode   = "ecr, node"
	ecrWithKeys = "ecr, node, keys"
	ecrAsPod    = "ecr, serviceAccount"
)

// rival is what others start for what one of our cases does.
type rival struct {
	name, program, as string
	// judges says that ours may cost a part of it at most.
	judges bool
}

// rivals are a program of the shape of cloud-provider-aws' credential provider, with the SDK's clients and Kubernetes' codecs
// (peer), the least that gets a token of ECR with AWS' SDK (sdk) and, if there is its binary, that provider itself, which then
// judges in place of its shape.
func rivals(programs map[string]string) []rival {
	ecp := programs["ecp"]
	all := []rival{
		{"AWS peer's shape", programs["peer"], ecrAsNode, ecp == ""},
		{"AWS SDK alone", programs["sdk"], ecrAsNode, false},
	}
	if ecp != "" {
		for _, as := range []string{ecrAsNode, ecrWithKeys, ecrAsPod} {
			all = append(all, rival{"ecr-credential-provider", ecp, as, true})
		}
	}
	return all
}

// full is the name in the report.
func (r rival) full() string { return r.name + strings.TrimPrefix(r.as, "ecr") }

// measured are the rival's runs until its first byte, and its whole ones.
func (r rival) measured(cases []world) []*measured {
	run := cases[slices.IndexFunc(cases, func(c world) bool { return c.name == r.as })]
	run.args = nil
	return []*measured{{name: r.full(), program: r.program, run: run, first: true}, {name: r.full(), program: r.program, run: run}}
}

// compare says what part of the others' time ECR costs.
func compare(others []rival, all []*measured, part float64) error {
	median := func(name string) (first, whole float64) {
		i := slices.IndexFunc(all, func(m *measured) bool { return m.name == name })
		return float64(all[i].median()), float64(all[i+1].median())
	}
	fmt.Println()
	var slow []string
	for _, r := range others {
		first, whole := median(r.as)
		theirs, theirWhole := median(r.full())
		fmt.Printf("%s: %.2fx of %s until the first byte, %.2fx to the end\n", r.as, first/theirs, r.full(), whole/theirWhole)
		if r.judges && part > 0 && first/theirs > part {
			slow = append(slow, fmt.Sprintf("%s (%.2fx)", r.as, first/theirs))
		}
	}
	if len(slow) > 0 {
		return fmt.Errorf("more than %.2fx of the time of AWS' provider until the first byte: %s", part, strings.Join(slow, ", "))
	}
	return nil
}
