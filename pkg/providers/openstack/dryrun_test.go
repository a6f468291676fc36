package openstack

import (
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// dryProvider makes a provider that only says what it would do.
func dryProvider(t *testing.T, sim *ossim.Sim, more ...string) (p *cloud.Provider, said func() []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(file, []byte(sim.CloudConf()+strings.Join(more, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var lines []string
	logger := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(args, "Dry run") {
			lines = append(lines, args)
		}
	}, funcr.Options{})
	p, _, err := New(klog.NewContext(testContext(t), logger), file, cloud.Options{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	return p, func() []string { return lines }
}

func mutations(sim *ossim.Sim) []string {
	var out []string
	for _, r := range sim.Requests() {
		if r.Method != http.MethodGet && r.Service != "identity" {
			out = append(out, r.Method+" "+r.Path)
		}
	}
	return out
}

// A dry run follows changes of what exists to their end, names each, and makes none.
func TestDryRunFollowsChanges(t *testing.T) {
	x := newLBTest(t, 3)
	x.ensure(x.spec)
	before := x.sim.LoadBalancers()
	p, said := dryProvider(t, x.sim)
	x.sim.ResetRequests()
	spec := *x.spec
	spec.Members = spec.Members[:1]
	spec.Ports = slices.Clone(spec.Ports)
	spec.Ports[0].Port = 8080
	for range 2 {
		if _, err := p.LoadBalancers.Ensure(testContext(t), &spec); err != nil {
			t.Fatal(err)
		}
	}
	if got := mutations(x.sim); len(got) > 0 {
		t.Errorf("the cloud was asked to change: %v", got)
	}
	if after := x.sim.LoadBalancers(); !reflect.DeepEqual(before, after) {
		t.Errorf("the load balancer was %+v and is %+v", before, after)
	}
	log := strings.Join(said(), "\n")
	for _, want := range []string{`"method"="DELETE" "path"="/load-balancer/v2.0/lbaas/listeners/`, `protocol_port\":8080`, `/members" "body"=`} {
		if !strings.Contains(log, want) {
			t.Errorf("nothing in the log has %s:\n%s", want, log)
		}
	}
}

// What cannot be followed to its end is said and comes back later; it is no failure.
func TestDryRunOfNewObjects(t *testing.T) {
	x := newLBTest(t, 3)
	p, said := dryProvider(t, x.sim)
	if _, err := p.LoadBalancers.Ensure(testContext(t), x.spec); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Errorf("error %v", err)
	}
	if len(said()) != 1 || !strings.Contains(said()[0], "kube_service_") {
		t.Errorf("the log has %v", said())
	}
	hop := x.all[0].Addresses[0]
	add := cloud.Route{Destination: netip.MustParsePrefix("10.244.7.0/24"), NextHop: hop}
	cluster := x.spec.Cluster
	cluster.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	for _, err := range p.Routes.Apply(testContext(t), cluster, []cloud.Route{add}, nil) {
		if err != nil {
			t.Error(err)
		}
	}
	if log := strings.Join(said(), "\n"); !strings.Contains(log, "add_extraroutes") || !strings.Contains(log, "allowed_address_pairs") {
		t.Errorf("the log has %s", log)
	}
	if got := mutations(x.sim); len(got) > 0 {
		t.Errorf("the cloud was asked to change: %v", got)
	}
}

// A deletion is said, with the floating IP's, and not looked at again every few seconds.
func TestDryRunOfDeletion(t *testing.T) {
	x := newLBTest(t, 3)
	x.ensure(x.spec)
	p, said := dryProvider(t, x.sim)
	x.sim.ResetRequests()
	err := p.LoadBalancers.Delete(testContext(t), x.spec)
	if cloud.KindOf(err) != cloud.KindRetryAfter || cloud.RetryAfter(err) != 10*time.Minute {
		t.Errorf("error %v, again after %s", err, cloud.RetryAfter(err))
	}
	log := strings.Join(said(), "\n")
	for _, want := range []string{`"method"="DELETE" "path"="/network/v2.0/floatingips/`, `"method"="DELETE" "path"="/load-balancer/v2.0/lbaas/loadbalancers/`} {
		if strings.Count(log, want) != 1 {
			t.Errorf("%d lines of the log have %s, want 1:\n%s", strings.Count(log, want), want, log)
		}
	}
	if got := mutations(x.sim); len(got) > 0 {
		t.Errorf("the cloud was asked to change: %v", got)
	}
}

// Security groups that would be made are followed to the Nodes' ports.
func TestDryRunOfSecurityGroups(t *testing.T) {
	x := newLBTest(t, 3)
	x.ensure(x.spec)
	before := x.sim.Snapshot().Ports
	p, said := dryProvider(t, x.sim, "\n[LoadBalancer]\n"+managed)
	x.sim.ResetRequests()
	if _, err := p.LoadBalancers.Ensure(testContext(t), x.spec); err != nil {
		t.Fatal(err)
	}
	if got := mutations(x.sim); len(got) > 0 {
		t.Errorf("the cloud was asked to change: %v", got)
	}
	if !reflect.DeepEqual(before, x.sim.Snapshot().Ports) {
		t.Error("the ports have changed")
	}
	log := strings.Join(said(), "\n")
	if ports := strings.Count(log, `"method"="PUT" "path"="/network/v2.0/ports/`); ports != 3 || !strings.Contains(log, "lb-sg-") || !strings.Contains(log, "30080") {
		t.Errorf("%d ports would be changed, want 3:\n%s", ports, log)
	}
}
