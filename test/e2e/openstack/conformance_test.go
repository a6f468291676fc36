//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/test/conformance/openstack"
	"github.com/isthmus-cloud/isthmus/test/golden"
)

// TestConformance runs the conformance suite against the real cloud, with each provider of
// Octavia, in a project of its own. The providers run one beside the other where go test
// has -parallel for it.
func TestConformance(t *testing.T) {
	admin := adminAccess(t)
	for _, provider := range []string{"amphora", "ovn"} {
		t.Run(provider, func(t *testing.T) {
			access, remove, err := openstack.MakeProject(t.Context(), admin)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { takeDown(t, remove) })
			world, err := openstack.New(t.Context(), access, openstack.Options{Provider: provider, Dir: t.TempDir(), Patience: 6 * time.Minute, Throttle: func() (func(), string) {
				return nil, "nothing here limits the rate of requests"
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { takeDown(t, world.Close) })
			results := cloudtest.Run(t, world.Setup(openstack.Unsupported(provider, openstack.Real)))
			if results.Complete() && !t.Failed() { // else the name pattern has left features out, or the run says what is wrong
				golden.Compare(t, filepath.Join("..", "..", "conformance", "openstack", "testdata", "zed-"+provider+".golden"), results.Marshal())
			}
		})
	}
}

// takeDown undoes something although the test has ended.
func takeDown(t *testing.T, undo func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := undo(ctx); err != nil {
		t.Error(err)
	}
}

// adminAccess reads the administrator's credentials of the running cloud.
func adminAccess(t *testing.T) openstack.Access {
	t.Helper()
	home := os.Getenv("ISTHMUS_OPENSTACK_HOME")
	if home == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		home = filepath.Join(cache, "isthmus", "openstack")
	}
	data, err := os.ReadFile(filepath.Join(home, "run", "admin-openrc"))
	if err != nil {
		t.Fatalf("no OpenStack to test against: %v (`make openstack-up` starts one)", err)
	}
	env := map[string]string{}
	for _, field := range strings.Fields(string(data)) {
		if key, value, ok := strings.Cut(field, "="); ok {
			env[key] = value
		}
	}
	return openstack.Access{AuthURL: env["OS_AUTH_URL"], Region: env["OS_REGION_NAME"], User: env["OS_USERNAME"], Password: env["OS_PASSWORD"], Project: env["OS_PROJECT_NAME"]}
}
