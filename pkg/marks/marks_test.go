package marks

import (
	"slices"
	"testing"
)

func TestTagIsReadBack(t *testing.T) {
	const uid = "714f1a84-9733-4bb6-aa45-ad213da01e3c"
	for _, tt := range []struct {
		tags []string
		want string
	}{
		{nil, ""}, {[]string{"kube_service_x", "isthmus"}, ""}, {[]string{"other", Tag(uid)}, uid},
		{[]string{Tag(uid), Tag("second")}, uid}, {[]string{"x" + Tag(uid)}, ""},
	} {
		if got := ClusterUID(tt.tags); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.tags, got, tt.want)
		}
	}
}

func TestAddKeepsWhatIsThere(t *testing.T) {
	tags := make([]string, 1, 8)
	tags[0] = "a"
	if got := Add(tags, "b", "a", "b"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q", got)
	}
	if tags = tags[:2]; tags[1] != "" {
		t.Errorf("what was given has become %q", tags)
	}
}
