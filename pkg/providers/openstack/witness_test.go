package openstack

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// Another project, region or cloud answers as this one does about servers that are gone. No
// Node may be deleted on that, whatever servers of its own it has.
func TestOtherCredentialsAreNoEvidence(t *testing.T) {
	sim, other := startSim(t), startSim(t)
	servers := sim.SeedServers(ossim.Seed{Count: 4, NamePrefix: "node-"})
	other.SeedServers(ossim.Seed{Count: 4, NamePrefix: "web-"})
	p := newProvider(t, other, "")
	refs := append(refsOf(servers), cloud.InstanceRef{NodeName: "node-0"})
	for _, ref := range refs {
		_, err := p.Instances.Get(testContext(t), ref)
		if err == nil || cloud.KindOf(err) != cloud.KindInvalid {
			t.Errorf("%v: %v of kind %v, want Invalid", ref, err, cloud.KindOf(err))
		} else if !strings.Contains(err.Error(), "[Global]") || !strings.Contains(err.Error(), "project ") {
			t.Errorf("%v does not say what to check", err)
		}
	}

	p = newProvider(t, sim, "")
	sim.DeleteServer(servers[0].ID)
	sim.DeleteServer(servers[1].ID)
	if _, err := p.Instances.Get(testContext(t), refs[0]); cloud.IsNotFound(err) {
		t.Error("NotFound before any server of the cluster was seen")
	}
	for n, r := range p.Instances.Find(testContext(t), refs[:4]) {
		if gone := n < 2; gone != cloud.IsNotFound(r.Err) || !gone && r.Err != nil {
			t.Errorf("%v: %v", refs[n], r.Err)
		}
	}
	for _, ref := range refs[:2] {
		if _, err := p.Instances.Get(testContext(t), ref); !cloud.IsNotFound(err) {
			t.Errorf("%v: %v, want NotFound: the cluster's servers were seen", ref, err)
		}
	}
}

// The only server of a cluster that this process has seen itself is evidence enough.
func TestTheOnlyServerCanGo(t *testing.T) {
	sim := startSim(t)
	s := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})[0]
	p := newProvider(t, sim, "")
	if _, err := p.Instances.Get(testContext(t), cloud.InstanceRef{NodeName: s.Name}); err != nil {
		t.Fatal(err)
	}
	sim.DeleteServer(s.ID)
	if _, err := p.Instances.Get(testContext(t), refsOf([]ossim.Server{s})[0]); !cloud.IsNotFound(err) {
		t.Errorf("%v, want NotFound", err)
	}
}

func TestWitness(t *testing.T) {
	gone := cloud.Errorf(cloud.KindNotFound, "gone")
	byID := func(id string) target { return target{id: id} }
	tests := []struct {
		name string
		saw  func(*witness)
		ask  target
		want bool
	}{
		{"nothing", func(*witness) {}, byID("1"), false},
		{"elsewhere by ID", func(w *witness) { w.saw("b", byID("1"), "1") }, byID("1"), false},
		{"here by ID", func(w *witness) { w.saw("a", byID("2"), "2") }, byID("1"), true},
		{"here by ID, asked by name", func(w *witness) { w.saw("a", byID("2"), "2") }, target{name: "n"}, true},
		{"another by name", func(w *witness) { w.saw("a", target{name: "m"}, "2") }, byID("1"), false},
		{"another by name, asked by name", func(w *witness) { w.saw("a", target{name: "m"}, "2") }, target{name: "n"}, true},
		{"elsewhere by name, asked by name", func(w *witness) { w.saw("b", target{name: "m"}, "2") }, target{name: "n"}, false},
		{"the same by name", func(w *witness) { w.saw("a", target{name: "m"}, "1") }, byID("1"), true},
		{"the same by name elsewhere", func(w *witness) { w.saw("b", target{name: "m"}, "1") }, byID("1"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &witness{}
			tt.saw(w)
			err := w.check("a", tt.ask, gone)
			if errors.Is(err, gone) != tt.want || cloud.IsNotFound(err) != tt.want {
				t.Errorf("%v, believed should be %t", err, tt.want)
			}
		})
	}
}

// Each project is a place of its own, though the endpoint is the same.
func TestPlaces(t *testing.T) {
	sim := startSim(t)
	places := map[string]bool{}
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, []byte(sim.CloudsYAML()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sim", "sim-admin"} {
		conf := filepath.Join(t.TempDir(), "cloud.conf")
		text := "[Global]\nuse-clouds = true\nclouds-file = " + file + "\ncloud = " + name + "\n"
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, _, err := New(t.Context(), conf, cloud.Options{})
		if err != nil {
			t.Fatal(err)
		}
		sc, err := p.Instances.(*Instances).c.compute(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		places[place(sc)] = !strings.Contains(place(sc), "unknown")
	}
	if len(places) != 2 || slices.Contains(slices.Collect(maps.Values(places)), false) {
		t.Errorf("places %v, want one for each project", places)
	}
}
