package webhooks_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/webhooks"
)

func TestSelect(t *testing.T) {
	tests := map[string]struct {
		list []string
		want []string
		err  string
	}{
		"default":              {nil, nil, ""},
		"all":                  {[]string{"*"}, []string{"persistentvolume-label"}, ""},
		"one":                  {[]string{"persistentvolume-label"}, []string{"persistentvolume-label"}, ""},
		"all but one":          {[]string{"*", "-persistentvolume-label"}, nil, ""},
		"all but one, swapped": {[]string{"-persistentvolume-label", "*"}, nil, ""},
		"none":                 {[]string{"-*"}, nil, ""},
		"only one":             {[]string{"-*", "persistentvolume-label"}, []string{"persistentvolume-label"}, ""},
		"unknown":              {[]string{"*", "persistentvolume-labels"}, nil, `unknown webhook "persistentvolume-labels"; known are persistentvolume-label`},
		"unknown, turned off":  {[]string{"-x"}, nil, `unknown webhook "x"`},
		"empty word":           {[]string{""}, nil, `unknown webhook ""`},
		"nothing turned off":   {[]string{"-"}, nil, `unknown webhook ""`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := webhooks.Select(tt.list)
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

func TestAll(t *testing.T) {
	if names := webhooks.Names(); !slices.IsSorted(names) || len(slices.Compact(names)) != len(webhooks.All()) {
		t.Errorf("names %v are not sorted and distinct", names)
	}
	for _, w := range webhooks.All() {
		if h := w.New(&cloud.Provider{}); h != nil {
			t.Errorf("%s: a cloud without abilities has a webhook: %v", w.Name, h)
		}
	}
}
