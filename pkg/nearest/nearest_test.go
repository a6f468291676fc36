package nearest_test

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

func TestOf(t *testing.T) {
	names := []string{"auth-url", "username", "user-id", "use-clouds", "password", "x"}
	for typed, want := range map[string]string{
		"auth_url":  "auth-url",
		"AUTHURL":   "auth-url",
		"passwrod":  "password",
		"usernam":   "username",
		"user-ids":  "user-id",
		"y":         "", // changing the only letter is no likeness
		"unrelated": "",
		"":          "",
	} {
		if got := nearest.Of(typed, names); got != want {
			t.Errorf("Of(%q) = %q, want %q", typed, got, want)
		}
	}
	if got := nearest.Of("anything", nil); got != "" {
		t.Errorf("Of without names = %q, want nothing", got)
	}
}

func TestWithin(t *testing.T) {
	names := []string{"internal", "external"}
	for typed, want := range map[string]string{"interna": "internal", "inner": "", "Externall": "external", "internal": "internal"} {
		if got := nearest.Within(typed, names, 1); got != want {
			t.Errorf("Within(%q, 1) = %q, want %q", typed, got, want)
		}
	}
}
