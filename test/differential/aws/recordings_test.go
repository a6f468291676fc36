package aws

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
)

// TestRecordings: every group is recorded as it is, by one version of the existing manager, with a state for each phase.
func TestRecordings(t *testing.T) {
	manager := ""
	for _, g := range script.Groups() {
		r, err := recording.Read(recordings, g.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		if r.Digest != script.Digest(&g) {
			t.Errorf("group %s is not what was recorded: make record-aws ARGS='-groups %s' CCM=PATH", g.Name, g.Name)
		}
		if manager == "" {
			manager = r.Manager
		}
		if r.Manager != manager {
			t.Errorf("group %s was recorded with %s, others with %s", g.Name, r.Manager, manager)
		}
		for _, s := range g.Scenarios {
			if n := len(r.States[s.Name]); n != len(g.Phases()) {
				t.Errorf("scenario %s has %d states, want %d", s.Name, n, len(g.Phases()))
			}
		}
		if len(r.States) != len(g.Scenarios) {
			t.Errorf("group %s: %d scenarios are recorded, want %d", g.Name, len(r.States), len(g.Scenarios))
		}
	}
}

// TestEveryAnnotation: each annotation is in a scenario of each type of load balancers.
func TestEveryAnnotation(t *testing.T) {
	for _, kind := range []string{"classic", "network"} {
		var groups []script.Group
		for _, g := range script.Groups() {
			if strings.HasPrefix(g.Name, kind) {
				groups = append(groups, g)
			}
		}
		text, err := json.Marshal(groups)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range annotations.Table() {
			if a.Name == annotations.Type {
				continue // those of network load balancers have all types
			}
			if !strings.Contains(strings.ReplaceAll(string(text), `\`, ""), `"`+a.Name+`"`) {
				t.Errorf("no %s load balancer has the annotation %s", kind, a.Name)
			}
		}
	}
}
