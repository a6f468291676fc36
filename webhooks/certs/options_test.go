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
		"self-managed": {[]string{"--webhook-cert-source=self-managed"}, ""},
		"secret":       {[]string{"--webhook-cert-source=self-managed", "--webhook-cert-secret=a/b.c"}, ""},
		"no namespace": {[]string{"--webhook-cert-source=self-managed", "--webhook-cert-secret=b"}, `--webhook-cert-secret: "b" is not NAMESPACE/NAME`},
		"no name":      {[]string{"--webhook-cert-source=self-managed", "--webhook-cert-secret=a/"}, `--webhook-cert-secret: "a/" is not`},
		"both":         {[]string{"--webhook-cert-source=self-managed", "--webhook-cert-dir=/certs"}, "--webhook-cert-dir: not read with --webhook-cert-source=self-managed"},
		"cert-manager": {[]string{"--webhook-cert-source=cert-manager", "--webhook-cert-manager-inject-ca"}, ""},
		"issuer":       {[]string{"--webhook-cert-source=cert-manager", "--webhook-cert-manager-issuer=ClusterIssuer/a"}, ""},
		"other issuer": {[]string{"--webhook-cert-source=cert-manager", "--webhook-cert-manager-issuer=Foo.example.com/a"}, ""},
		"bad issuer":   {[]string{"--webhook-cert-source=cert-manager", "--webhook-cert-manager-issuer=/a"}, `--webhook-cert-manager-issuer: "/a" is not [KIND[.GROUP]/]NAME`},
		"bad kind":     {[]string{"--webhook-cert-source=cert-manager", "--webhook-cert-manager-issuer=Foo/a"}, "cert-manager has no Foo"},
		"no issuer":    {[]string{"--webhook-cert-source=self-managed", "--webhook-cert-manager-issuer=a"}, "not read with --webhook-cert-source=self-managed"},
		"files issuer": {[]string{"--webhook-cert-dir=/x", "--webhook-cert-manager-issuer=a"}, "not read with --webhook-cert-source=files"},
		"misspelled":   {[]string{"--webhook-cert-source=selfmanaged"}, `--webhook-cert-source: "selfmanaged" is not one of files, self-managed, cert-manager`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := certs.NewOptions()
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
