package instancecache

import (
	"errors"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/deletionguard"
)

func TestScopeIsTheLastOneSeenWhenReadsFail(t *testing.T) {
	now := time.Now()
	here, there := cloud.InstanceRef{NodeName: "a", ProviderID: "x://1"}, cloud.InstanceRef{NodeName: "b", ProviderID: "x://2"}
	s := snapshot{entries: map[cloud.InstanceRef]entry{}}
	s.put(here, entry{instance: &cloud.Instance{ProviderID: here.ProviderID, Scope: "here"}, began: now, arrived: now})
	s.put(there, entry{instance: &cloud.Instance{ProviderID: there.ProviderID, Scope: "there"}, began: now, arrived: now})
	s.fail(there, errors.New("down"), now.Add(time.Minute))
	for _, tt := range []struct {
		name string
		ref  cloud.InstanceRef
		want string
	}{
		{"reads fail now", there, "there"},
		{"seen", here, "here"},
		{"never seen", cloud.InstanceRef{NodeName: "c"}, ""},
		{"made anew since", cloud.InstanceRef{NodeName: "b", ProviderID: "x://3"}, ""},
	} {
		if got := s.scope(tt.ref); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// That the instances of one scope cannot be read is no reason to doubt what another one says.
func TestUnreadableCountsOnlyWhenTheScopeMayBeTheOneAsked(t *testing.T) {
	counts := nodeCounts{Counts: deletionguard.Counts{Missing: 4}, missing: map[string]int{"here": 1, "there": 2, "": 1},
		seen: map[string]int{"here": 10, "there": 100}, unreadable: map[string]int{"here": 1, "there": 20, "": 300}}
	for scope, want := range map[string]deletionguard.Counts{
		"here":  {Seen: 110, SeenHere: 10, Missing: 4, MissingHere: 2, Unreadable: 301},
		"there": {Seen: 110, SeenHere: 100, Missing: 4, MissingHere: 3, Unreadable: 320},
		"":      {Seen: 110, SeenHere: 110, Missing: 4, MissingHere: 4, Unreadable: 321},
	} {
		if got := counts.in(scope, time.Time{}); got != want {
			t.Errorf("in %q: %+v, want %+v", scope, got, want)
		}
	}
}
