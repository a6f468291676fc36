package openstack

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

// Kind is which cloud a World is.
type Kind string

// The kinds of cloud. What they lack is the same but for what a World cannot try.
const (
	Simulator Kind = "simulator"
	Real      Kind = "zed"
)

// Unsupported is what a cloud with an Octavia provider lacks.
func Unsupported(provider string, kind Kind) map[cloudtest.Feature]string {
	out := map[cloudtest.Feature]string{
		cloudtest.InstancesPodCIDRs: "Nova gives servers no addresses for pods",
		cloudtest.RoutesBlackhole:   "a router's routes lead to addresses, and nothing says that nobody has one any more",
	}
	if provider == "ovn" {
		for f, reason := range map[cloudtest.Feature]string{
			cloudtest.LoadBalancerHTTP:    "the ovn driver balances connections, not requests",
			cloudtest.LoadBalancerTLS:     "the ovn driver balances connections, not requests",
			cloudtest.LoadBalancerPROXY:   "the ovn driver does not touch the connections' content",
			cloudtest.LoadBalancerPROXYv1: "the ovn driver does not touch the connections' content",
			cloudtest.LoadBalancerSources: "the ovn driver has no allowed_cidrs",
			cloudtest.LoadBalancerLocal:   "the ovn driver has no HTTP monitors; a TCP check of the node port takes their place",
			cloudtest.LoadBalancerDual:    "the ovn driver of Zed forgets additional VIPs",
		} {
			out[f] = reason
		}
	}
	if kind == Real {
		out[cloudtest.LoadBalancerTraffic] = "not tried: nothing answers on the servers"
		out[cloudtest.ErrorsThrottled] = "nothing in a plain OpenStack limits the rate of requests"
	}
	return out
}

// CheckGolden compares complete results with a golden file; with update it writes it. What a
// run has found that failed is neither compared nor written.
func CheckGolden(t *testing.T, file string, r cloudtest.Results, update bool) {
	t.Helper()
	if !r.Complete() {
		return // the name pattern has left features out
	}
	if t.Failed() {
		t.Logf("%s is neither compared nor written: the run has failed", file)
		return
	}
	if update {
		if err := os.WriteFile(filepath.Clean(file), r.Marshal(), 0o644); err != nil { //nolint:gosec // for everyone
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, r.Marshal()) {
		t.Errorf("%s is stale: run the test with -update, then make generate", file)
	}
}
