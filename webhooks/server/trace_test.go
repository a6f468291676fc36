package server

import (
	"regexp"
	"testing"
)

func TestTraceID(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for parent, want := range map[string]string{
		"":                                                            "",
		"00-" + trace + "-" + span + "-01":                            trace,
		"01-" + trace + "-" + span + "-01":                            trace, // later versions read as this one
		"01-" + trace + "-" + span + "-01-more":                       trace,
		"00-" + trace + "-" + span + "-01-more":                       "",
		"01-" + trace + "-" + span + "-01more":                        "",
		"ff-" + trace + "-" + span + "-01":                            "",
		"00-00000000000000000000000000000000-" + span + "-01":         "",
		"00-" + trace + "-0000000000000000-01":                        "",
		"00-0AF7651916CD43DD8448EB211C80319C-" + span + "-01":         "",
		"00-" + trace + "-" + span:                                    "",
		"00_" + trace + "_" + span + "_01":                            "",
		"00-0af7651916cd43dd8448eb211c80319\n-b7ad6b7169203331-01":    "",
		"00-" + trace + "-" + span + "-zz":                            "",
		"00-" + trace[:31] + "--" + span[:15] + "x-01":                "",
		"00-" + trace + "-" + span + "-0" + "\xff" + "and very long ": "",
	} {
		if got := traceID(parent); got != want {
			t.Errorf("%q: %q, want %q", parent, got, want)
		}
	}
}

// FuzzTraceID: what gets into logs is hexadecimal and of one length.
func FuzzTraceID(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-will-be-like")
	id := regexp.MustCompile(`^[0-9a-f]{32}$`)
	f.Fuzz(func(t *testing.T, parent string) {
		if got := traceID(parent); got != "" && !id.MatchString(got) {
			t.Errorf("%q: %q", parent, got)
		}
	})
}
