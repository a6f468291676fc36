package main

import (
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
	vspheredifference "github.com/isthmus-cloud/isthmus/test/differential/vsphere/difference"
	vspherescript "github.com/isthmus-cloud/isthmus/test/differential/vsphere/script"
)

func TestTheReferenceOfVSphereCounts(t *testing.T) {
	list := []compare.Intended{{Name: "one", Scenarios: "uuid-(swapped|same)"}}
	c, err := countVSphere("../../test/differential/vsphere/testdata", vspherescript.Groups()[:1], list)
	if err != nil {
		t.Fatal(err)
	}
	if c.manager == "" || c.groups != 1 || c.scenarios < 45 || c.same != c.scenarios-2 || c.differ[0] != 2 || c.states != c.scenarios || c.backs != c.scenarios {
		t.Errorf("%+v", c)
	}
	first := vspheredifference.Differences()[0]
	got := string(ofVSphere().table(&counts{manager: "v9", groups: 2, scenarios: 30, same: 20, states: 50, backs: 40, differ: make([]int, len(vspheredifference.Differences()))}))
	for _, want := range []string{"v9", "30 scenarios in\n2 groups", "In 20 of 30 scenarios", "| " + first.Name + " | " + first.Theirs, "each of 50 states", "started on 40 states"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}
