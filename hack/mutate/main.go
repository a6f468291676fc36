// Command mutate shows whether tests notice what they are for. It takes small defects ("mutants") from
// the files in hack/mutate/mutants, puts each into the code by `go test -overlay`, so that nothing in
// the work tree changes, and runs the tests of the mutant's own package: they should fail.
//
// The mutants were written by hand, where a defect would hurt: a slot that is never released, an error
// that is dropped, a precondition that is missing. Operators that change every comparison make thousands,
// each worth a run of tests with a control plane of its own, and few of them say as much.
//
// It ends with 1 if a mutant survives that is not listed as doing so, if one does not survive that is,
// or if fewer than -least percent are killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	timeout := flag.Duration("timeout", 10*time.Minute, "how long the tests of a package may take with one mutant; one that they hang with is killed")
	least := flag.Int("least", 90, "percent of the mutants that must be killed")
	list := flag.Bool("list", false, "only list the mutants")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "usage: mutate [flags] [./package | ./folder/... | word of a mutant's title]…\nWithout arguments all mutants are tried.")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := mutate(ctx, flag.Args(), *timeout, *least, *list); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func mutate(ctx context.Context, args []string, timeout time.Duration, least int, list bool) error {
	all, err := readAll(mutantFiles, ".")
	if err != nil {
		return err
	}
	chosen := choose(all, args)
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant is of %s", strings.Join(args, " "))
	}
	if list {
		for _, m := range chosen {
			fmt.Println(m)
		}
		return nil
	}
	r := &runner{timeout: timeout, sound: map[string]error{}}
	counts, wrong := map[outcome]int{}, []error{}
	for i, m := range chosen {
		start := time.Now()
		o, err := r.try(ctx, m)
		if ctx.Err() != nil {
			return errors.Join(append(wrong, ctx.Err())...)
		}
		if err != nil {
			return errors.Join(append(wrong, fmt.Errorf("%s: %w", m, err))...)
		}
		counts[o]++
		fmt.Printf("%3d/%d %-8s %5.1f s  %s\n", i+1, len(chosen), o, time.Since(start).Seconds(), m)
		switch {
		case o == survived && m.survives == "":
			wrong = append(wrong, fmt.Errorf("%s: survived: write a test of package %s that fails with it, or say in the list why none can", m, m.dir()))
		case o == killed && m.survives != "":
			wrong = append(wrong, fmt.Errorf("%s: is killed, though the list says that it survives (%s): correct the list", m, m.survives))
		}
	}
	percent := 100 * counts[killed] / len(chosen)
	fmt.Printf("%d mutants, %d killed (%d %%), %d survived\n", len(chosen), counts[killed], percent, counts[survived])
	if percent < least && len(args) == 0 {
		wrong = append(wrong, fmt.Errorf("only %d %% are killed, %d %% must be", percent, least))
	}
	return errors.Join(wrong...)
}
