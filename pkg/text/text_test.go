package text

import (
	"slices"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestIsUUIDWhenCanonical(t *testing.T) {
	const id = "714f1a84-9733-4bb6-aa45-ad213da01e3c"
	for in, want := range map[string]bool{id: true, "": false, id[:35]: false, id + "x": false, "{" + id + "}": false, "urn:uuid:" + id: false, "714f1a8497334bb6aa45ad213da01e3c": false} {
		if got := IsUUID(in); got != want {
			t.Errorf("IsUUID(%q) = %t", in, got)
		}
	}
}

func TestListDropsWhatIsEmpty(t *testing.T) {
	for in, want := range map[string][]string{"": nil, " , ,": nil, "a": {"a"}, " a ,b,, c d ": {"a", "b", "c d"}} {
		if got := List(in); !slices.Equal(got, want) {
			t.Errorf("List(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestClipCutsBetweenLetters(t *testing.T) {
	for _, tt := range []struct {
		in   string
		most int
		want string
	}{{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"a№b", 3, "a…"}, {"№", 2, "…"}, {"ab", 0, "…"}} {
		if got := Clip(tt.in, tt.most); got != tt.want || !utf8.ValidString(got) {
			t.Errorf("Clip(%q, %d) = %q, want %q", tt.in, tt.most, got, tt.want)
		}
	}
}

func TestPrintableIsOneLine(t *testing.T) {
	for in, want := range map[string]string{"": "", "a b": "a b", "\n\t": "", "a\r\nb\x1b[31mc\u202ed\x7f\u009b": "a b [31mc d", "a\xffb": "a b", "№": "№"} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLabelValue(t *testing.T) {
	tests := map[string]string{
		"": "", "az1": "az1", "nova": "nova", "zone 1": "zone-1", "rack/№ 7": "rack-7", "-x_": "x", "a.b_c-D": "a.b_c-D", "///": "",
		"x123456789012345678901234567890123456789012345678901234567890.._/z": "x123456789012345678901234567890123456789012345678901234567890",
	}
	for in, want := range tests {
		got := LabelValue(in)
		if got != want {
			t.Errorf("LabelValue(%q) = %q, want %q", in, got, want)
		}
		if errs := validation.IsValidLabelValue(got); len(errs) > 0 {
			t.Errorf("LabelValue(%q) = %q: %v", in, got, errs)
		}
	}
}

func FuzzLabelValue(f *testing.F) {
	f.Add("zone 1")
	f.Fuzz(func(t *testing.T, s string) {
		if errs := validation.IsValidLabelValue(LabelValue(s)); len(errs) > 0 {
			t.Errorf("%q: %v", s, errs)
		}
	})
}
