package hosted_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/hosted"
)

func TestAll(t *testing.T) {
	all := hosted.All()
	if names := webhooks.Names(all); !slices.IsSorted(names) || len(slices.Compact(names)) != len(all) {
		t.Errorf("names %v are not sorted and distinct", names)
	}
	for _, w := range all {
		if msgs := validation.IsDNS1123Label(w.Name); len(msgs) > 0 {
			t.Errorf("name %q: %v", w.Name, msgs)
		}
		if !strings.HasPrefix(w.Path, "/webhooks/") || len(w.Rules) == 0 || (w.Type != webhooks.Mutating && w.Type != webhooks.Validating) {
			t.Errorf("%s: path %q, type %q and %d rules", w.Name, w.Path, w.Type, len(w.Rules))
		}
	}
}
