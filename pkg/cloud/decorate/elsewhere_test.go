package decorate

import (
	"errors"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// That another scope is down is no reason to doubt what this one says.
func TestElsewhere(t *testing.T) {
	now := time.Now()
	here, there := cloud.InstanceRef{NodeName: "a", ProviderID: "x://1"}, cloud.InstanceRef{NodeName: "b", ProviderID: "x://2"}
	s := snapshot{}
	s.put(here, &cloud.Instance{ProviderID: here.ProviderID, Scope: "here"}, "", now, now)
	s.put(there, &cloud.Instance{ProviderID: there.ProviderID, Scope: "there"}, "", now, now)
	s.fail(there, errors.New("down"), now.Add(time.Minute))
	for _, tt := range []struct {
		name  string
		ref   cloud.InstanceRef
		scope string
		want  bool
	}{
		{"seen in the other scope, whose reads fail now", there, "here", true},
		{"seen in this scope", here, "here", false},
		{"the scope is not known", there, "", false},
		{"never seen", cloud.InstanceRef{NodeName: "c"}, "here", false},
		{"made anew since", cloud.InstanceRef{NodeName: "b", ProviderID: "x://3"}, "here", false},
	} {
		if got := s.elsewhere(tt.ref, tt.scope); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}
