package webhooks_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/isthmus-cloud/isthmus/webhooks"
)

func TestService(t *testing.T) {
	tests := map[string]struct {
		args  []string
		names []string
		want  []string
	}{
		"defaults": {nil, []string{"isthmus-webhook.kube-system.svc", "isthmus-webhook.kube-system.svc.cluster.local", "isthmus-webhook.kube-system", "isthmus-webhook"}, nil},
		"own":      {[]string{"--webhook-service-name=a", "--webhook-service-namespace=b"}, []string{"a.b.svc", "a.b.svc.cluster.local", "a.b", "a"}, nil},
		"wrong":    {[]string{"--webhook-service-name=A.b", "--webhook-service-namespace="}, nil, []string{`--webhook-service-name: "A.b"`, `--webhook-service-namespace: ""`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, fs := webhooks.DefaultService(), pflag.NewFlagSet("test", pflag.ContinueOnError)
			s.AddFlags(fs)
			if err := fs.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			err := s.Validate()
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if diff := cmp.Diff(tt.names, s.DNSNames()); err == nil && diff != "" {
				t.Errorf("names differ (-want +got):\n%s", diff)
			}
		})
	}
}
