// Command bench-credential compares, in one run, what a Go program that does nothing costs to start with
// what isthmus-credential-provider costs until it sends its first byte, for every kind of registry and
// identity, each against its simulated cloud. The kubelet starts the program for every pull, on nodes
// that have better things to do. It ends with 1 if a kind costs more than the limit.
//
// In the same run it measures what others start (rivals.go), and ends with 1 as well if ECR costs more than the given part
// of AWS' own provider.
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
	part := flag.Float64("part", 0.8, "part of the CPU time of AWS' provider until its first byte that ECR may cost; 0 is any")
	ecp := flag.String("ecp", "", "AWS' ecr-credential-provider, a binary that you have built; without it a program of its shape is measured")
	flag.Parse()
	if err := bench(context.Background(), *runs, *limit, *part, *ecp); err != nil {
		fmt.Fprintln(os.Stderr, "bench-credential:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, runs int, limit time.Duration, part float64, ecp string) error {
	dir, err := os.MkdirTemp("", "bench-credential-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	programs, err := build(ctx, dir, ecp)
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
	others := rivals(programs)
	for _, r := range others {
		all = append(all, r.measured(cases)...)
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
	return errors.Join(report(ctx, ours, noop, all[1:], limit), compare(others, all, part))
}

// build builds the programs as releases are, beside ecp, which is built already, if it is not "".
func build(ctx context.Context, dir, ecp string) (programs map[string]string, err error) {
	source := filepath.Join(dir, "nothing.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return nil, err
	}
	programs = map[string]string{}
	for name, from := range map[string]string{"nothing": source, "ours": "./cmd/credential-provider", "peer": "./hack/bench-credential/peer", "sdk": "./hack/bench-credential/sdk"} {
		linked := filepath.Join(dir, name+".linked")
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", linked, from) //nolint:gosec // paths of this program
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go build %s: %w: %s", from, err, out)
		}
		if programs[name], err = installed(linked, filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	if ecp != "" {
		programs["ecp"], err = installed(ecp, filepath.Join(dir, "ecp"))
	}
	return programs, err
}

// installed is a copy of a program, as an installation leaves it: what the linker has written piece by piece is in small
// pieces in the kernel's memory as well, and costs up to a millisecond more to start.
func installed(program, as string) (string, error) {
	data, err := os.ReadFile(program) //nolint:gosec // the user's, or built just now
	if err != nil {
		return "", err
	}
	return as, os.WriteFile(as, data, 0o700) //nolint:gosec // a program
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
	fmt.Printf("%-40s %10s %10s %8s   %s\n", "", "to 1st byte", "over noop", "ratio", "whole run")
	fmt.Printf("%-40s %8.2f ms\n", noop.name, ms(base))
	var slow []string
	for i := 0; i+1 < len(all); i += 2 {
		first, whole := all[i].median(), all[i+1].median()
		fmt.Printf("%-40s %8.2f ms %7.2f ms %7.1fx %8.2f ms\n", all[i].name, ms(first), ms(first-base), float64(first)/float64(base), ms(whole))
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
