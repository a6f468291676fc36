// Package apitest opens the simulated cloud for the tests of the provider's packages, as the
// program opens a real one.
//
// It makes no provider: each package makes its own part of it.
package apitest

import (
	"context"
	"testing"
	"time"

	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// RequestTimeout is beyond what the simulator takes on a busy machine: no test waits for it.
const RequestTimeout = 5 * time.Minute

// Open logs in with a cloud.conf, so that request counts are those of the operation alone.
func Open(t testing.TB, sim *ossim.Sim, conf string) (*api.Client, *config.Config) {
	t.Helper()
	cfg, warnings, err := config.Parse("cloud.conf", []byte(conf))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("cloud.conf: %v, %v", warnings, err)
	}
	s, err := auth.New(cfg.Global, auth.Options{UserAgent: "test", RequestTimeout: RequestTimeout})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(Context(t)); err != nil {
		t.Fatal(err)
	}
	sim.ResetRequests()
	return api.New(s), cfg
}

// Context ends with the test, or where that hangs.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) //nolint:forbidigo // what cleans up uses it, too
	t.Cleanup(cancel)
	return ctx
}

// Calls is the number of requests since the last reset, authentication aside.
func Calls(sim *ossim.Sim) int { return sim.Count("", "") - sim.Count("identity", "") }

// LogCalls prints the request log of a failed test.
func LogCalls(t testing.TB, sim *ossim.Sim) {
	t.Helper()
	if t.Failed() {
		for _, r := range sim.Requests() {
			t.Logf("%s %s %s?%s: %d", r.Service, r.Method, r.Path, r.Query.Encode(), r.Status)
		}
	}
}
