// Command bench-credential compares, in one run, what a Go program that does nothing costs to start with
// what isthmus-credential-provider costs until it sends its first byte, for every kind of registry and
// identity, each against its simulated cloud. The kubelet starts the program for every pull, on nodes
// that have better things to do. It ends with 1 if a kind costs more than the limit.
//
// In the same run it measures what others start: a program of the shape of cloud-provider-aws' credential provider, with the
// SDK's clients and Kubernetes' codecs (peer), and the least that gets a token of ECR with AWS' SDK (sdk). It ends with 1 as
// well if ECR costs more than the given part of the first.
//
// The cost is CPU time, user and system, as the kernel accounts it for the process (rusage). The process
// is killed when its first byte arrives. Runs alternate, and medians are compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	runs := flag.Int("runs", 41, "runs of each program")
	limit := flag.Duration("limit", 5*time.Millisecond, "CPU time over the program that does nothing")
	part := flag.Float64("part", 0.8, "part of the peer's CPU time until its first byte that ECR may cost; 0 is any")
	flag.Parse()
	if err := bench(context.Background(), *runs, *limit, *part); err != nil {
		fmt.Fprintln(os.Stderr, "bench-credential:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, runs int, limit time.Duration, part float64) error {
	dir, err := os.MkdirTemp("", "bench-credential-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	programs, err := build(ctx, dir)
	if err != nil {
		return err
	}
	cases, done, err := worlds(ctx, dir)
	defer done()
	if err != nil {
		return err
	}
	ours := programs["ours"]
	if err := covers(ctx, ours, cases); err != nil {
		return err
	}
	noop := &measured{name: "a program that does nothing", program: programs["nothing"]}
	all := []*measured{noop}
	for _, other := range []struct{ name, program string }{{"AWS peer's shape, node", "peer"}, {"AWS SDK alone, node", "sdk"}} {
		run := cases[slices.IndexFunc(cases, func(c world) bool { return c.name == ecrAsNode })]
		run.args = nil
		all = append(all, &measured{name: other.name, program: programs[other.program], run: run, first: true}, &measured{name: other.name, program: programs[other.program], run: run})
	}
	for _, c := range cases {
		all = append(all, &measured{name: c.name, program: ours, run: c, first: true}, &measured{name: c.name, program: ours, run: c})
	}
	for range runs {
		for _, m := range all {
			if err := m.once(ctx); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	return errors.Join(report(ctx, ours, noop, all[1:], limit), compare(all[1:], part))
}

const ecrAsNode = "ecr, node"

// compare says what part of the peer's time ECR costs, which is the first of all.
func compare(all []*measured, part float64) error {
	ours := all[slices.IndexFunc(all, func(m *measured) bool { return m.name == ecrAsNode })].median()
	got := float64(ours) / float64(all[0].median())
	fmt.Printf("\n%s until the first byte: %.2fx of the %s, %.2fx of the %s\n", ecrAsNode, got, all[0].name, float64(ours)/float64(all[2].median()), all[2].name)
	if part > 0 && got > part {
		return fmt.Errorf("%s costs %.2fx of the %s until its first byte, more than %.2fx", ecrAsNode, got, all[0].name, part)
	}
	return nil
}

// build builds the programs as releases are.
func build(ctx context.Context, dir string) (map[string]string, error) {
	source := filepath.Join(dir, "nothing.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return nil, err
	}
	programs := map[string]string{}
	for name, from := range map[string]string{"nothing": source, "ours": "./cmd/credential-provider", "peer": "./hack/bench-credential/peer", "sdk": "./hack/bench-credential/sdk"} {
		programs[name] = filepath.Join(dir, name)
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", programs[name], from) //nolint:gosec // paths of this program
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go build %s: %w: %s", from, err, out)
		}
	}
	return programs, nil
}

// covers returns an error if the program has a kind of registry that no case measures.
func covers(ctx context.Context, ours string, cases []world) error {
	out, err := exec.CommandContext(ctx, ours, "--registries=?").CombinedOutput()
	_, known, ok := strings.Cut(string(out), "known are ")
	if err == nil || !ok {
		return errors.New("the program does not tell its kinds of registries")
	}
	for _, kind := range strings.Split(strings.TrimSpace(known), ", ") {
		for _, identity := range []string{"node", "serviceAccount"} {
			if !slices.ContainsFunc(cases, func(c world) bool { return c.name == kind+", "+identity }) {
				return fmt.Errorf("no case measures %s as %s; add it to worlds.go", kind, identity)
			}
		}
	}
	return nil
}

// report prints the medians and compares them with the limit.
func report(ctx context.Context, ours string, noop *measured, all []*measured, limit time.Duration) error {
	base := noop.median()
	fmt.Printf("CPU time (user + system), medians of %d runs\n\n", len(noop.took))
	fmt.Printf("%-34s %10s %10s %8s   %s\n", "", "to 1st byte", "over noop", "ratio", "whole run")
	fmt.Printf("%-34s %8.2f ms\n", noop.name, ms(base))
	var slow []string
	for i := 0; i+1 < len(all); i += 2 {
		first, whole := all[i].median(), all[i+1].median()
		fmt.Printf("%-34s %8.2f ms %7.2f ms %7.1fx %8.2f ms\n", all[i].name, ms(first), ms(first-base), float64(first)/float64(base), ms(whole))
		if all[i].program == ours && first-base > limit {
			slow = append(slow, fmt.Sprintf("%s (%.2f ms)", all[i].name, ms(first-base)))
		}
	}
	if err := initTrace(ctx, ours); err != nil {
		return err
	}
	if len(slow) > 0 {
		return fmt.Errorf("more than %s over a program that does nothing: %s", limit, strings.Join(slow, ", "))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// initTrace prints which packages take the most time before main.
func initTrace(ctx context.Context, ours string) error {
	cmd := exec.CommandContext(ctx, ours, "--version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("inittrace: %w", err)
	}
	type part struct {
		name  string
		clock float64
		line  string
	}
	var parts []part
	sum := 0.0
	for _, line := range strings.Split(string(out), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[0] != "init" {
			continue
		}
		clock, err := strconv.ParseFloat(fields[4], 64)
		if err != nil {
			return fmt.Errorf("inittrace: %q: %w", line, err)
		}
		sum += clock
		parts = append(parts, part{fields[1], clock, strings.Join(fields[4:], " ")})
	}
	slices.SortFunc(parts, func(a, b part) int {
		if a.clock > b.clock {
			return -1
		}
		return 1
	})
	fmt.Printf("\nbefore main: %.2f ms in %d packages, the most in\n", sum, len(parts))
	for _, p := range parts[:min(8, len(parts))] {
		fmt.Printf("  %-62s %s\n", p.name, p.line)
	}
	return nil
}
