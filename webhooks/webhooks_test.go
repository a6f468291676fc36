package webhooks_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/webhooks"
)

func TestSelect(t *testing.T) {
	all := []webhooks.Webhook{{Name: "one"}, {Name: "persistentvolume-label"}}
	tests := map[string]struct {
		list []string
		want []string
		err  string
	}{
		"default":              {nil, nil, ""},
		"all":                  {[]string{"*"}, []string{"one", "persistentvolume-label"}, ""},
		"one":                  {[]string{"persistentvolume-label"}, []string{"persistentvolume-label"}, ""},
		"all but one":          {[]string{"*", "-persistentvolume-label"}, []string{"one"}, ""},
		"all but one, swapped": {[]string{"-persistentvolume-label", "*"}, []string{"one"}, ""},
		"none":                 {[]string{"-*"}, nil, ""},
		"only one":             {[]string{"-*", "persistentvolume-label"}, []string{"persistentvolume-label"}, ""},
		"unknown":              {[]string{"*", "persistentvolume-labels"}, nil, `unknown webhook "persistentvolume-labels"; known are one, persistentvolume-label`},
		"unknown, turned off":  {[]string{"-x"}, nil, `unknown webhook "x"`},
		"empty word":           {[]string{""}, nil, `unknown webhook ""`},
		"nothing turned off":   {[]string{"-"}, nil, `unknown webhook ""`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := webhooks.Select(all, tt.list)
			if (err == nil) != (tt.err == "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			var names []string
			for _, w := range got {
				names = append(names, w.Name)
			}
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Errorf("webhooks differ (-want +got):\n%s", diff)
			}
		})
	}
}
