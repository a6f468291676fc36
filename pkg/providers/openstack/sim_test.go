package openstack

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

const (
	missingID = "00000000-0000-4000-8000-00000000dead"
	idA       = "aaaaaaaa-0000-4000-8000-000000000001"
	idB       = "bbbbbbbb-0000-4000-8000-000000000002"
)

// newProvider makes the provider as the program does, from the simulator's cloud.conf with
// more appended, and logs in, so that request counts are those of the operation alone.
func newProvider(t *testing.T, sim *ossim.Sim, more string) *cloud.Provider {
	t.Helper()
	return newProviderOf(t, sim, sim.CloudConf()+"\n"+more)
}

func newProviderOf(t *testing.T, sim *ossim.Sim, conf string) *cloud.Provider {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	p, warnings, err := New(context.Background(), file, cloud.Options{UserAgent: "test", RequestTimeout: apitest.RequestTimeout})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("new provider: %v, %v", warnings, err)
	}
	ctx := testContext(t)
	if err := p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	sim.ResetRequests()
	return p
}

func testContext(t *testing.T) context.Context { return apitest.Context(t) }

func calls(sim *ossim.Sim) int { return apitest.Calls(sim) }

func logCalls(t *testing.T, sim *ossim.Sim) { apitest.LogCalls(t, sim) }
