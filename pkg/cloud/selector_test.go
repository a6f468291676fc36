package cloud

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

func TestParseSelector(t *testing.T) {
	node := labels.Set{"pool": "web", "gpu": "", "disk": "ssd"}
	for text, want := range map[string]bool{
		"":                         true,
		" , ":                      true,
		"pool=web":                 true,
		" pool=web , disk=ssd,":    true,
		"pool=":                    true, // exists, whatever its value
		"pool":                     true,
		"pool=db":                  false,
		"zone=":                    false,
		"pool=web,zone":            false,
		"pool=db,pool=web":         true, // the last of a key counts
		"pool=web,pool=db":         false,
		"pool=db,pool":             true,
		"gpu=":                     true,
		"pool in (web, db),!zone":  true,
		"pool notin (web)":         false,
		"pool==web,disk!=hdd,!cpu": true,
	} {
		s, err := ParseSelector(text)
		if err != nil || s.Matches(node) != want {
			t.Errorf("%q: %v, %v, want %v", text, s, err, want)
		}
	}
	for _, text := range []string{"a in b", "=x", "pool=web=db", "pool in (web", "a b", strings.Repeat("!a,", MaxSelector/3) + "!b"} {
		if s, err := ParseSelector(text); err == nil {
			t.Errorf("%.100q: %v, want an error", text, s)
		}
	}
}
