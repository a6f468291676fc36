package deletionguard

import (
	"fmt"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func TestScopeIsProvenWhenAnExistingInstanceIsSeen(t *testing.T) {
	byID := func(id string) cloud.InstanceRef { return cloud.InstanceRef{NodeName: "n", ProviderID: id} }
	byName := cloud.InstanceRef{NodeName: "n"}
	in := func(scope, id string) *cloud.Instance { return &cloud.Instance{Scope: scope, ProviderID: id} }
	of := func(id, machine string) *cloud.Instance {
		return &cloud.Instance{Scope: "a", ProviderID: id, MachineIDs: []string{"b-3", machine}}
	}
	machine := cloud.InstanceRef{NodeName: "n", SystemUUID: "A-2"}
	tests := []struct {
		name string
		saw  func(*evidence)
		ask  cloud.InstanceRef
		want Evidence
	}{
		{"nothing", func(*evidence) {}, byID("1"), NoEvidence},
		{"elsewhere by ID", func(e *evidence) { e.saw(byID("1"), in("b", "1")) }, byID("1"), NoEvidence},
		{"here by ID", func(e *evidence) { e.saw(byID("2"), in("a", "2")) }, byID("1"), IDResolved},
		{"here by ID, asked by name", func(e *evidence) { e.saw(byID("2"), in("a", "2")) }, byName, IDResolved},
		{"another by name", func(e *evidence) { e.saw(byName, in("a", "2")) }, byID("1"), NoEvidence},
		{"another by name, asked by name", func(e *evidence) { e.saw(byName, in("a", "2")) }, byName, NameMatches},
		{"elsewhere by name, asked by name", func(e *evidence) { e.saw(byName, in("b", "2")) }, byName, NoEvidence},
		{"the same by name", func(e *evidence) { e.saw(byName, in("a", "1")) }, byID("1"), IDResolved},
		{"the same by name elsewhere", func(e *evidence) { e.saw(byName, in("b", "1")) }, byID("1"), NoEvidence},
		{"another by name that has its ID since", func(e *evidence) { e.saw(byName, in("a", "2")); e.saw(byID("2"), in("a", "2")) }, byID("1"), NoEvidence},
		{"the same by name that has its ID since", func(e *evidence) { e.saw(byName, in("a", "1")); e.saw(byID("1"), in("a", "1")) }, byID("1"), IDResolved},
		{"another by name, and one by ID", func(e *evidence) { e.saw(byName, in("a", "2")); e.saw(byID("3"), in("a", "3")) }, byID("1"), IDResolved},
		{"another by its machine's UUID", func(e *evidence) { e.saw(machine, of("fake:///2", "a-2")) }, byID("1"), IDResolved},
		{"another by a UUID that proves nothing", func(e *evidence) { e.saw(machine, in("a", "fake:///a-2")) }, byID("1"), NoEvidence},
		{"another by name that bears the cluster's mark", func(e *evidence) {
			e.saw(byName, &cloud.Instance{Scope: "a", ProviderID: "2", Marked: true})
		}, byID("1"), IDResolved},
		{"a mark elsewhere", func(e *evidence) {
			e.saw(byName, &cloud.Instance{Scope: "b", ProviderID: "2", Marked: true})
		}, byID("1"), NoEvidence},
		{"another by name whose machine has another UUID", func(e *evidence) { e.saw(machine, of("fake:///b-2", "b-2")) }, byID("1"), NoEvidence},
		{"very many by name", func(e *evidence) {
			for n := range maxNameMatches + 1 {
				e.saw(byName, in("a", fmt.Sprint("many-", n)))
			}
		}, byID("1"), IDResolved},
		{"without a scope", func(e *evidence) { e.saw(byID("1"), in("", "1")) }, byID("1"), NoEvidence},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := &evidence{}
			tt.saw(e)
			if got := e.of("a", tt.ask); got != tt.want {
				t.Errorf("evidence %d, want %d", got, tt.want)
			}
		})
	}
}
