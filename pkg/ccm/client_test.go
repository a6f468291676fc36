package ccm

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/apiclient"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// No client of ours limits itself unless it is told to; all have the limit that is asked for.
func TestClientsAreLimitedOnlyWhenAskedTo(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, &rest.Config{Host: "https://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args  []string
		qps   float32
		burst int
	}{
		{nil, -1, 30},
		{[]string{"--kube-api-qps=0"}, -1, 30},
		{[]string{"--kube-api-qps=-3", "--kube-api-burst=0"}, -1, 0},
		{[]string{"--kube-api-qps=20"}, 20, 30},
		{[]string{"--kube-api-qps=7.5", "--kube-api-burst=9"}, 7.5, 9},
	} {
		o, err := options.New()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := options.Parse(o.Flags(), append(test.args, "--cloud-provider=openstack", "--kubeconfig="+kubeconfig)); err != nil {
			t.Fatal(err)
		}
		if err := o.Validate([]string{"openstack"}); err != nil {
			t.Fatal(err)
		}
		m, err := New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]*rest.Config{"the manager's": m.Config(), "a controller's": apiclient.Named(m.Config(), "x")} {
			if c.QPS != test.qps || c.Burst != test.burst && test.qps > 0 || c.RateLimiter != nil {
				t.Errorf("%v: %s client has %v requests a second and a burst of %d, want %v and %d", test.args, name, c.QPS, c.Burst, test.qps, test.burst)
			}
		}
	}
}
