package openstack

import (
	"fmt"
	"strings"
	"testing"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// A Barbican that passes over what it is asked for may tell of other secrets: only an active one of the very name is taken.
func TestOnlyTheSecretOfTheNameIsTaken(t *testing.T) {
	sim := ossim.ForTest(t)
	id := func(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }
	right := id(store(t, sim, textSecret("registry", dockerConfigJSON)))
	wrong := id(store(t, sim, textSecret("other", strings.Replace(dockerConfigJSON, "from-barbican", "another's", 1))))
	entry := func(name, status, created, id string) string {
		return fmt.Sprintf(`{"name":%q,"status":%q,"created":%q,"secret_ref":"http://barbican/v1/secrets/%s"}`, name, status, created, id)
	}
	const old, late, later = "2026-01-01T00:00:00", "2026-01-02T00:00:00", "2026-01-03T00:00:00"
	for name, tt := range map[string]struct {
		list []string
		want string // the error; empty for the right secret
	}{
		"another's name":          {list: []string{entry("other", "ACTIVE", later, wrong), entry("registry", "ACTIVE", late, right)}},
		"not active":              {list: []string{entry("registry", "ERROR", later, wrong), entry("registry", "ACTIVE", late, right)}},
		"newest first":            {list: []string{entry("registry", "ACTIVE", late, right), entry("registry", "ACTIVE", old, wrong)}},
		"newest last":             {list: []string{entry("registry", "ACTIVE", old, wrong), entry("registry", "ACTIVE", late, right)}},
		"only another's":          {list: []string{entry("other", "ACTIVE", later, wrong)}, want: `no secret named "registry"`},
		"only one that is broken": {list: []string{entry("registry", "ERROR", later, wrong)}, want: `no secret named "registry"`},
	} {
		t.Run(name, func(t *testing.T) {
			defer sim.AddFault(ossim.Fault{Service: "key-manager", Method: "GET", Path: "/secrets", Times: 1, Status: 200,
				Body: fmt.Sprintf(`{"secrets":[%s],"total":%d}`, strings.Join(tt.list, ","), len(tt.list))})()
			got, err := ask(t, provider(t, sim, "[Registry \"r.example:5000\"]\ntype = barbican\nsecret = registry\n"), "r.example:5000/app")
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %+v, %v, want %q", got, err, tt.want)
				}
				return
			}
			if err != nil || got.Password.Reveal() != "from-barbican" {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// A payload is read up to a bound, whatever the server sends.
func TestPayloadIsBounded(t *testing.T) {
	sim := ossim.ForTest(t)
	store(t, sim, textSecret("registry", dockerConfigJSON))
	for size, want := range map[int]string{maxPayload: "", maxPayload + 1: "the payload is longer than 256 KiB"} {
		payload := dockerConfigJSON + strings.Repeat(" ", size-len(dockerConfigJSON))
		undo := sim.AddFault(ossim.Fault{Service: "key-manager", Path: "/secrets/*/payload", Status: 200, Body: payload})
		_, err := ask(t, provider(t, sim, "[Registry \"r.example:5000\"]\ntype = barbican\nsecret = registry\n"), "r.example:5000/app")
		undo()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: %v, want %q", size, err, want)
		}
	}
}
