package main

import (
	"strings"
	"testing"

	awsdifference "github.com/isthmus-cloud/isthmus/test/differential/aws/difference"
	awsscript "github.com/isthmus-cloud/isthmus/test/differential/aws/script"
)

func TestTheReferenceOfAWSCounts(t *testing.T) {
	list := []awsdifference.Intended{{Name: "one", Scenarios: "node-dns(-b)?"}, {Name: "all", Scenarios: "shared"}}
	c, err := countAWS("../../test/differential/aws/testdata", awsscript.Groups()[:1], list)
	if err != nil {
		t.Fatal(err)
	}
	if c.manager == "" || c.groups != 1 || c.scenarios < 60 || c.same != c.scenarios-2 || c.differ[0] != 2 || c.differ[1] != 0 || c.states <= c.scenarios || c.backs != c.scenarios {
		t.Errorf("%+v", c)
	}
	first := awsdifference.Differences()[0]
	got := string(ofAWS().table(&counts{manager: "v9", groups: 2, scenarios: 30, same: 20, states: 50, backs: 40, differ: make([]int, len(awsdifference.Differences()))}))
	for _, want := range []string{"v9", "30 scenarios in\n2 groups", "In 20 of 30 scenarios", "| " + first.Name + " | " + first.Theirs, "| what they share |", "each of 50 states", "started on 40 states"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}
