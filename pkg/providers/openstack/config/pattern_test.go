package config

import (
	"strings"
	"testing"
)

func TestSubnetNameMatcher(t *testing.T) {
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"", "any", true}, {"pub*", "public", true}, {"pub*", "private", false}, {"!pub*", "private", true}, {"!pub*", "public", false},
		{"~pub.*", "public", true}, {"~pub", "public", false}, {"~pub.*", "republic", false}, {"!~pub.*", "republic", true}, {"!~pub.*", "public", false},
		{"~pub|public", "public", false}, {"~public|pub", "public", true}, {"~pub", "", true}, {"!~pub", "", false}, {"pub*", "", true},
		{"public", "public", true}, {"public", "public-1", false}, {"pub*", "public/a", false}, {"pub?ic", "public", true}, {"p[u-v]b*", "public", true},
		{"{public,dmz}-*", "dmz-1", true}, {"{public,dmz}-*", "lan-1", false}, {"a.b", "axb", false}, {"a,b", "a,b", true}, {"**/x", "a/b/x", true}, {"a(b)+", "a(b)+", true},
	}
	for _, tt := range tests {
		match, err := SubnetMatcher(tt.pattern)
		if err != nil || match(tt.name) != tt.want {
			t.Errorf("pattern %q matches %q = %v, %v; want %v", tt.pattern, tt.name, !tt.want, err, tt.want)
		}
	}
	for _, bad := range []string{"~(", "[", "![", "{a", "~" + strings.Repeat("x{1000}", 37), strings.Repeat("a", 256)} {
		if _, err := SubnetMatcher(bad); err == nil {
			t.Errorf("pattern %q is taken", bad)
		}
	}
}
