package query

import (
	"net/url"
	"slices"
	"testing"
	"time"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"a", "a", true}, {"a", "A", false}, {"a", "ab", false}, {"*", "", true}, {"a*c", "abbc", true},
		{"a*c", "abcd", false},
		{"a?c", "abc", true}, {"a?c", "abbc", false}, {"a?", "a", true}, {`a\*`, "a*", true}, {`a\*`, "ab", false},
		{"p5*", "p5.48xlarge", true},
	} {
		if got := glob(c.pattern, c.text); got != c.want {
			t.Errorf("%q matches %q: %t", c.pattern, c.text, got)
		}
	}
}

func TestFormOfBothDialects(t *testing.T) {
	values, err := url.ParseQuery("Filter.1.Name=a&Filter.1.Value.1=x&Filter.1.Value.2=y&Filter.2.Name=b&Names.member.1=one&Names.member.2=&Empty=&Id.1=i")
	if err != nil {
		t.Fatal(err)
	}
	f := Parse(values)
	filters := f.Structs("Filter")
	if len(filters) != 2 || filters[0].Get("Name") != "a" || !slices.Equal(filters[0].Strings("Value"), []string{"x", "y"}) {
		t.Errorf("filters: %+v", filters)
	}
	if got := f.Strings("Names"); !slices.Equal(got, []string{"one", ""}) {
		t.Errorf("names: %q", got)
	}
	if !f.Has("Empty") || len(f.Strings("Empty")) != 0 || f.Has("Other") || f.At("Other").Get("x") != "" {
		t.Error("an empty list is none, or one that was not sent is there")
	}
}

func TestBucketsFillWithTime(t *testing.T) {
	var b Buckets
	if !b.Take("a", "one") {
		t.Error("nothing is set, yet throttled")
	}
	b.Set("a", 1, 20)
	if !b.Take("a", "one") || b.Take("a", "one") || !b.Take("a", "two") {
		t.Error("each owner has one token")
	}
	for deadline := time.Now().Add(10 * time.Second); !b.Take("a", "one"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no token comes")
		}
	}
}
