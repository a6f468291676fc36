package cloud_test

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func TestSettings(t *testing.T) {
	s := cloud.Settings{"b": "true", "i": "-1", "s": "", "bad": "x"}
	if !s.Bool("b", false) || s.Bool("none", false) || !s.Bool("bad", true) {
		t.Error("Bool: want the value, then the default")
	}
	if s.Int("i", 5) != -1 || s.Int("none", 5) != 5 || s.Int("bad", 5) != 5 {
		t.Error("Int: want the value, then the default")
	}
	if s.String("s", "def") != "" || s.String("none", "def") != "def" || !s.Has("s") || s.Has("none") {
		t.Error("String: an empty value is a value")
	}
	var none cloud.Settings
	if none.Has("x") || none.Int("x", 1) != 1 {
		t.Error("a nil Settings must be usable")
	}
}
