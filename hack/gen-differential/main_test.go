package main

import (
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/difference"
)

func TestTheListReplacesWhatIsBetweenTheMarks(t *testing.T) {
	text := "before\n" + begin + "old\n" + end + "after\n"
	got, err := insert([]byte(text), []byte("new\n"))
	if err != nil || string(got) != "before\n"+begin+"new\n"+end+"after\n" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []string{"none", begin + "no end"} {
		if _, err := insert([]byte(bad), nil); err == nil {
			t.Errorf("%q is taken although a mark is missing", bad)
		}
	}
}

func TestTheReferenceCounts(t *testing.T) {
	first := difference.Differences()[0]
	got := string(table(&difference.Results{Manager: "v9", Groups: 2, Scenarios: 30, Same: 20, Back: 40, Intended: map[string]int{first.Name: 7}}, "OpenStack X", 12))
	for _, want := range []string{"v9", "30 scenarios in 2 groups", "In 20 of 30 scenarios", "| " + first.Name + " | 7 |", "started on 40 states", "12 of the scenarios against a real cloud, too (OpenStack X"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}
