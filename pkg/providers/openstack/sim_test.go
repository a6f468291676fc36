package openstack

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// requestTimeout is beyond what the simulator takes on a busy machine: no test waits for it.
const requestTimeout = 5 * time.Minute

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
	p, warnings, err := New(context.Background(), file, cloud.Options{UserAgent: "test", RequestTimeout: requestTimeout})
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

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// calls is the number of requests since the last reset, authentication aside.
func calls(sim *ossim.Sim) int {
	return sim.Count("", "") - sim.Count("identity", "")
}

// logCalls prints the request log of a failed test.
func logCalls(t *testing.T, sim *ossim.Sim) {
	t.Helper()
	if t.Failed() {
		for _, r := range sim.Requests() {
			t.Logf("%s %s %s?%s: %d", r.Service, r.Method, r.Path, r.Query.Encode(), r.Status)
		}
	}
}
