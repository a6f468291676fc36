package main

import (
	"fmt"
	"slices"
	"strings"
)

// table is what became of mutants.
type table struct{ rows []row }

// row counts the mutants of a package in a list.
type row struct {
	list, dir              string
	killed, survived, same int
}

// percent of those that count are killed; all, if none does.
func (r row) percent() int {
	if r.killed+r.survived == 0 {
		return 100
	}
	return 100 * r.killed / (r.killed + r.survived)
}

func (r row) plus(o row) row {
	r.killed, r.survived, r.same = r.killed+o.killed, r.survived+o.survived, r.same+o.same
	return r
}

// add counts a mutant.
func (t *table) add(m *mutant, o outcome) {
	one := row{list: m.list, dir: m.dir()}
	switch {
	case m.same != "":
		one.same = 1
	case o == killed:
		one.killed = 1
	default:
		one.survived = 1
	}
	i := slices.IndexFunc(t.rows, func(r row) bool { return r.list == one.list && r.dir == one.dir })
	if i < 0 {
		t.rows = append(t.rows, one)
		return
	}
	t.rows[i] = t.rows[i].plus(one)
}

// lists are the sums of the rows by list.
func (t *table) lists() []row {
	var out []row
	for _, r := range t.rows {
		i := slices.IndexFunc(out, func(sum row) bool { return sum.list == r.list })
		if i < 0 {
			i, out = len(out), append(out, row{list: r.list})
		}
		out[i] = out[i].plus(r)
	}
	return out
}

// String has a line for each package and for each list.
func (t *table) String() string {
	var out strings.Builder
	line := func(name string, r row) {
		fmt.Fprintf(&out, "%-45s %7d %7d %9d %9d %5d %%\n", name, r.killed+r.survived+r.same, r.killed, r.survived, r.same, r.percent())
	}
	fmt.Fprintf(&out, "%-45s %7s %7s %9s %9s %7s\n", "package", "mutants", "killed", "survived", "no change", "killed")
	for _, sum := range t.lists() {
		for _, r := range t.rows {
			if r.list == sum.list {
				line(r.dir, r)
			}
		}
		line("list "+sum.list, sum)
	}
	return out.String()
}

// below says which lists, of those that were tried as a whole, have fewer than least percent killed.
func (t *table) below(least int, all []*mutant) []error {
	var errs []error
	for _, sum := range t.lists() {
		tried, there := sum.killed+sum.survived+sum.same, 0
		for _, m := range all {
			if m.list == sum.list {
				there++
			}
		}
		if tried == there && sum.percent() < least {
			errs = append(errs, fmt.Errorf("list %s: only %d %% are killed, %d %% must be", sum.list, sum.percent(), least))
		}
	}
	return errs
}
