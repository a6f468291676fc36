package version

import (
	"strings"
	"testing"
)

func TestString(t *testing.T) {
	if got := String(); !strings.HasPrefix(got, "dev") && !strings.HasPrefix(got, "v") {
		t.Errorf("String() = %q, want dev or a version", got)
	}
	defer func(before string) { Version = before }(Version)
	Version = "v1.2.3"
	if got := String(); got != "v1.2.3" {
		t.Errorf("String() = %q, want what the build has set", got)
	}
}
