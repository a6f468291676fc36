// Command mutate shows whether tests notice what they are for. It takes small defects ("mutants") from
// the files in hack/mutate/mutants, puts each into the code by `go test -overlay`, so that nothing in
// the work tree changes, and runs the tests of the mutant's own package: they should fail.
//
// Some of the mutants were written by hand, where a defect would hurt: a slot that is never released, an error
// that is dropped, a precondition that is missing. The others were drawn by lot, so that what is tested well
// is not what was chosen: of all conditions, comparisons, statements, results and numbers of a package that
// can be negated, left out or moved by one, which are thousands, some for each package, all of which are in the
// lists whatever became of them. Each list says which are which.
//
// It ends with a table, and with 1 if a mutant survives that is not listed as doing so, if one does not survive
// that is, or if fewer than -least percent of a list that was tried as a whole are killed by their packages' own
// tests. Mutants that no test can tell from the code count neither way.
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
	timeout := flag.Duration("timeout", 4*time.Minute, "how long the tests of a package may take with one mutant; one that they hang with is killed")
	least := flag.Int("least", 90, "percent of each list's mutants that must be killed")
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
	r, done, wrong := &runner{timeout: timeout, sound: map[string]error{}}, &table{}, []error{}
	for i, m := range chosen {
		start := time.Now()
		o, err := r.try(ctx, m)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return errors.Join(append(wrong, fmt.Errorf("%s: %w", m, err))...)
		}
		fmt.Printf("%3d/%d %-8s %5.1f s  %s\n", i+1, len(chosen), o, time.Since(start).Seconds(), m)
		done.add(m, o)
		wrong = append(wrong, m.judge(o))
	}
	fmt.Printf("\n%s", done)
	return errors.Join(append(wrong, done.below(least, all)...)...)
}

// judge says what is wrong with what became of m.
func (m *mutant) judge(o outcome) error {
	reason := m.same + m.lives
	switch {
	case o == survived && reason == "":
		return fmt.Errorf("%s: survived: write a test of package %s that fails with it, or say in the list why there is none", m, m.dir())
	case o == killed && reason != "":
		return fmt.Errorf("%s: is killed, though the list says that it survives (%s): correct the list", m, reason)
	}
	return nil
}
