package certs_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/isthmus-cloud/isthmus/webhooks/certs"
)

func TestOptions(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"directory":    {[]string{"--webhook-cert-dir=/certs"}, ""},
		"no directory": {nil, "--webhook-cert-dir: required"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var o certs.Options
			fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
			o.AddFlags(fs)
			if err := fs.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			err := o.Validate()
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
