package openstack

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// TestEndOfTheLoginIsFollowed: it is told at the start and when other credentials are taken over, by one read each.
func TestEndOfTheLoginIsFollowed(t *testing.T) {
	sim := ossim.ForTest(t)
	ends := func(name string, at time.Time) ossim.AppCredential {
		c := sim.AddApplicationCredential(name)
		sim.ExpireApplicationCredential(c.ID, at)
		return c
	}
	first, second := time.Now().Add(24*time.Hour).UTC().Truncate(time.Second), time.Now().Add(48*time.Hour).UTC().Truncate(time.Second)
	old, next := ends("old", first), ends("next", second)
	file := filepath.Join(t.TempDir(), "cloud.conf")
	writeConf(t, file, sim.CloudConfWith(old))
	told := make(chan time.Time)
	var reloads []error
	p, _, err := New(t.Context(), file, cloud.Options{
		Reloaded: func(err error) { reloads = append(reloads, err) },
		LoginExpires: func(at time.Time) {
			select {
			case told <- at:
			case <-t.Context().Done():
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	if at := eventually.Received(t, "the end is told at the start", told); !at.Equal(first) {
		t.Errorf("told %s, want %s", at, first)
	}
	writeConf(t, file, sim.CloudConfWith(next))
	if at := eventually.Received(t, "the next end is told", told); !at.Equal(second) {
		t.Errorf("told %s, want %s", at, second)
	}
	cancel()
	if err := eventually.Received(t, "it ends", ended); err != nil {
		t.Error(err)
	}
	if len(reloads) == 0 || reloads[len(reloads)-1] != nil {
		t.Errorf("the process is told of reloads %v", reloads)
	}
	if n := sim.Count("identity", http.MethodGet); n != 2 {
		t.Errorf("%d reads, want 2", n)
	}
}

// TestEndOfTheLoginIsLookedAt: a login that ends soon is a warning, one that does not end in two weeks is none, and one whose end is
// not told is said.
func TestEndOfTheLoginIsLookedAt(t *testing.T) {
	sim := ossim.ForTest(t)
	c := sim.AddApplicationCredential("doctor")
	file := filepath.Join(t.TempDir(), "cloud.conf")
	writeConf(t, file, sim.CloudConfWith(c))
	for _, tt := range []struct {
		name   string
		at     time.Time
		fault  ossim.Fault
		found  bool
		unseen bool
	}{
		{name: "never"},
		{name: "in 15 days", at: time.Now().Add(15 * 24 * time.Hour)},
		{name: "in 13 days", at: time.Now().Add(13 * 24 * time.Hour), found: true},
		{name: "not told", at: time.Now().Add(time.Hour), fault: ossim.Fault{Service: "identity", Path: "/users/*/application_credentials/*", Status: http.StatusForbidden}, unseen: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sim.ExpireApplicationCredential(c.ID, tt.at)
			if tt.fault.Status != 0 {
				t.Cleanup(sim.AddFault(tt.fault))
			}
			p, _, err := New(t.Context(), file, cloud.Options{})
			if err != nil {
				t.Fatal(err)
			}
			d, err := p.Diagnose(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			var found, unseen bool
			for _, x := range d.Problems {
				found = found || x.Warning && x.Object == "application credential "+c.ID && strings.Contains(x.What, tt.at.UTC().Format(time.RFC3339))
			}
			for _, x := range d.Unseen {
				unseen = unseen || strings.HasPrefix(x, "when the login ends: ")
			}
			if found != tt.found || unseen != tt.unseen {
				t.Errorf("found %v, unseen %v: %+v", found, unseen, d)
			}
		})
	}
}
