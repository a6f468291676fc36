package providers

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere"
)

// What each cloud keeps in memory is named from the start, so that its age has a zero to start from.
func TestWhatIsKeptIsNamedFromTheStart(t *testing.T) {
	for _, test := range []struct {
		cloud  string
		create cloud.Factory
		conf   string
		want   []string
	}{
		{"aws", aws.New, "[Global]\nzone = eu-central-1a\n", []string{"classic_load_balancers", "load_balancers", "members", "network", "security_groups", "zones"}},
		{"openstack", openstack.New, "[Global]\nauth-url=http://127.0.0.1:9/v3\nusername=a\npassword=b\ntenant-name=c\ndomain-name=d\nregion=e\n[Route]\nrouter-id=0b1c2d3e-0000-4000-8000-000000000001\nrouter-id=0b1c2d3e-0000-4000-8000-000000000002\n",
			[]string{"network_extensions", "router_subnets"}},
		{"vsphere", vsphere.New, "[Global]\nuser=a\npassword=b\n[VirtualCenter \"127.0.0.1\"]\ndatacenters=dc\n[Labels]\nzone=k8s-zone\nregion=k8s-region\n", []string{"zones"}},
	} {
		file := filepath.Join(t.TempDir(), "cloud.conf")
		if err := os.WriteFile(file, []byte(test.conf), 0o600); err != nil {
			t.Fatal(err)
		}
		var got []string
		_, _, err := test.create(t.Context(), file, cloud.Options{Kept: func(name string) func(time.Time) {
			got = append(got, name)
			return func(time.Time) {}
		}})
		if err != nil {
			t.Fatalf("%s: %v", test.cloud, err)
		}
		slices.Sort(got)
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.cloud, d)
		}
	}
}
