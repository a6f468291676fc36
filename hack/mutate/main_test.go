package main

import (
	"bufio"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// Mutants that no longer stand in the code would be killed, or survive, for no reason.
func TestEveryMutantAppliesToTheCode(t *testing.T) {
	all, err := readAll(mutantFiles, "../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if after, err := m.apply("../.."); err != nil || !strings.Contains(string(after), strings.Join(m.after, "\n")) {
			t.Errorf("%s: %v", m, err)
		}
	}
}

func TestListsThatAreWrong(t *testing.T) {
	const head = "# main.go: a title\n"
	for text, want := range map[string]string{
		"# no colon\n":                                    ":1: want # file: title",
		"- package main\n":                                ":1: a line outside",
		head + "package main\n":                           ":2: lines begin with",
		head + "+ package main\n":                         "no lines to replace",
		head + "- package none\n":                         "do not stand there",
		head + "- \n+ x\n":                                "stand there twice",
		"# none.go: a title\n- package main\n+ package x": "no such file",
	} {
		_, err := readAll(fstest.MapFS{"mutants/a.txt": {Data: []byte(text)}}, ".")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestChoose(t *testing.T) {
	all, err := parse("list", bufio.NewScanner(strings.NewReader("// of\n// what\n# a/b/c.go: one\n- x\n! nobody looks\n\n# a/bc/d.go: two\n- y\n= it does nothing\n")))
	if err != nil || len(all) != 2 || all[1].same != "it does nothing" || all[0].lives != "nobody looks" || all[0].list != "list" {
		t.Fatalf("got %v, %v", all, err)
	}
	for args, want := range map[string]int{"": 2, "./a/...": 2, "./a/b": 1, "./a/b/...": 1, "./a": 0, "two": 1, "./a/bc ./a/b": 2} {
		if got := choose(all, strings.Fields(args)); len(got) != want {
			t.Errorf("%q: got %v, want %d", args, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		m    mutant
		o    outcome
		want string
	}{
		{mutant{}, killed, ""},
		{mutant{}, survived, "write a test"},
		{mutant{same: "x"}, survived, ""}, {mutant{lives: "x"}, survived, ""},
		{mutant{same: "x"}, killed, "correct the list"}, {mutant{lives: "x"}, killed, "correct the list"},
	} {
		if err := test.m.judge(test.o); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v %s: %v, want %q", test.m, test.o, err, test.want)
		}
	}
}

// What no test can notice counts neither way, and a list that was tried in part has no limit.
func TestTable(t *testing.T) {
	var all []*mutant
	of := func(list, file, same string) *mutant {
		all = append(all, &mutant{list: list, file: file, same: same})
		return all[len(all)-1]
	}
	done := &table{}
	for range 8 {
		done.add(of("one", "a/b.go", ""), killed)
	}
	done.add(of("one", "c/d.go", ""), survived)
	done.add(of("one", "c/e.go", "it does nothing"), survived)
	done.add(of("two", "a/b.go", ""), survived)
	of("two", "a/b.go", "") // is not tried
	want := []string{"package mutants killed survived no change killed", "./a 8 8 0 0 100 %", "./c 2 0 1 1 0 %", "list one 10 8 1 1 88 %", "./a 1 0 1 0 0 %", "list two 1 0 1 0 0 %"}
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(done.String()), "\n") {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for least, want := range map[int]string{88: "", 89: "list one: only 88 % are killed, 89 % must be"} {
		if err := errors.Join(done.below(least, all)...); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%d: %v, want %q", least, err, want)
		}
	}
}

// The list's own files are mutated here: with one mutant the tests of a package fail, with the other
// they do not, and one that does not compile is no mutant.
func TestTry(t *testing.T) {
	t.Chdir("../..")
	r := &runner{timeout: time.Minute, sound: map[string]error{}}
	base := mutant{file: "pkg/version/version.go", before: []string{`var Version = "dev"`}}
	for _, test := range []struct {
		after, err string
		want       outcome
	}{
		{`var Version = "never"`, "", killed},
		{`var Version = "d" + "ev"`, "", survived},
		{`var Version` + " =", "does not compile", ""},
	} {
		m := base
		m.after = []string{test.after}
		got, err := r.try(context.Background(), &m)
		if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: got %q, %v, want %q, %q", test.after, got, err, test.want, test.err)
		}
	}
}
