package decorate

import (
	"fmt"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func TestRealms(t *testing.T) {
	byID := func(id string) cloud.InstanceRef { return cloud.InstanceRef{NodeName: "n", ProviderID: id} }
	byName := cloud.InstanceRef{NodeName: "n"}
	in := func(realm, id string) *cloud.Instance { return &cloud.Instance{Realm: realm, ProviderID: id} }
	machine := cloud.InstanceRef{NodeName: "n", SystemUUID: "A-2"}
	tests := []struct {
		name string
		saw  func(*realms)
		ask  cloud.InstanceRef
		want bool
	}{
		{"nothing", func(*realms) {}, byID("1"), false},
		{"elsewhere by ID", func(r *realms) { r.saw(byID("1"), in("b", "1")) }, byID("1"), false},
		{"here by ID", func(r *realms) { r.saw(byID("2"), in("a", "2")) }, byID("1"), true},
		{"here by ID, asked by name", func(r *realms) { r.saw(byID("2"), in("a", "2")) }, byName, true},
		{"another by name", func(r *realms) { r.saw(byName, in("a", "2")) }, byID("1"), false},
		{"another by name, asked by name", func(r *realms) { r.saw(byName, in("a", "2")) }, byName, true},
		{"elsewhere by name, asked by name", func(r *realms) { r.saw(byName, in("b", "2")) }, byName, false},
		{"the same by name", func(r *realms) { r.saw(byName, in("a", "1")) }, byID("1"), true},
		{"the same by name elsewhere", func(r *realms) { r.saw(byName, in("b", "1")) }, byID("1"), false},
		{"another by name that has its ID since", func(r *realms) { r.saw(byName, in("a", "2")); r.saw(byID("2"), in("a", "2")) }, byID("1"), false},
		{"the same by name that has its ID since", func(r *realms) { r.saw(byName, in("a", "1")); r.saw(byID("1"), in("a", "1")) }, byID("1"), true},
		{"another by name, and one by ID", func(r *realms) { r.saw(byName, in("a", "2")); r.saw(byID("3"), in("a", "3")) }, byID("1"), true},
		{"another by its machine's UUID", func(r *realms) { r.saw(machine, in("a", "fake:///a-2")) }, byID("1"), true},
		{"another by name whose machine has another UUID", func(r *realms) { r.saw(machine, in("a", "fake:///b-2")) }, byID("1"), false},
		{"very many by name", func(r *realms) {
			for n := range maxNamed + 1 {
				r.saw(byName, in("a", fmt.Sprint("many-", n)))
			}
		}, byID("1"), true},
		{"without a realm", func(r *realms) { r.saw(byID("1"), in("", "1")) }, byID("1"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &realms{}
			tt.saw(r)
			if got := r.shown("a", tt.ask); got != tt.want {
				t.Errorf("shown is %t, want %t", got, tt.want)
			}
		})
	}
}
