package decorate

import (
	"fmt"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func TestScopes(t *testing.T) {
	byID := func(id string) cloud.InstanceRef { return cloud.InstanceRef{NodeName: "n", ProviderID: id} }
	byName := cloud.InstanceRef{NodeName: "n"}
	in := func(scope, id string) *cloud.Instance { return &cloud.Instance{Scope: scope, ProviderID: id} }
	machine := cloud.InstanceRef{NodeName: "n", SystemUUID: "A-2"}
	tests := []struct {
		name string
		saw  func(*scopes)
		ask  cloud.InstanceRef
		want bool
	}{
		{"nothing", func(*scopes) {}, byID("1"), false},
		{"elsewhere by ID", func(r *scopes) { r.saw(byID("1"), in("b", "1")) }, byID("1"), false},
		{"here by ID", func(r *scopes) { r.saw(byID("2"), in("a", "2")) }, byID("1"), true},
		{"here by ID, asked by name", func(r *scopes) { r.saw(byID("2"), in("a", "2")) }, byName, true},
		{"another by name", func(r *scopes) { r.saw(byName, in("a", "2")) }, byID("1"), false},
		{"another by name, asked by name", func(r *scopes) { r.saw(byName, in("a", "2")) }, byName, true},
		{"elsewhere by name, asked by name", func(r *scopes) { r.saw(byName, in("b", "2")) }, byName, false},
		{"the same by name", func(r *scopes) { r.saw(byName, in("a", "1")) }, byID("1"), true},
		{"the same by name elsewhere", func(r *scopes) { r.saw(byName, in("b", "1")) }, byID("1"), false},
		{"another by name that has its ID since", func(r *scopes) { r.saw(byName, in("a", "2")); r.saw(byID("2"), in("a", "2")) }, byID("1"), false},
		{"the same by name that has its ID since", func(r *scopes) { r.saw(byName, in("a", "1")); r.saw(byID("1"), in("a", "1")) }, byID("1"), true},
		{"another by name, and one by ID", func(r *scopes) { r.saw(byName, in("a", "2")); r.saw(byID("3"), in("a", "3")) }, byID("1"), true},
		{"another by its machine's UUID", func(r *scopes) { r.saw(machine, in("a", "fake:///a-2")) }, byID("1"), true},
		{"another by name whose machine has another UUID", func(r *scopes) { r.saw(machine, in("a", "fake:///b-2")) }, byID("1"), false},
		{"very many by name", func(r *scopes) {
			for n := range maxNamed + 1 {
				r.saw(byName, in("a", fmt.Sprint("many-", n)))
			}
		}, byID("1"), true},
		{"without a scope", func(r *scopes) { r.saw(byID("1"), in("", "1")) }, byID("1"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &scopes{}
			tt.saw(r)
			if got := r.shown("a", tt.ask); got != tt.want {
				t.Errorf("shown is %t, want %t", got, tt.want)
			}
		})
	}
}
