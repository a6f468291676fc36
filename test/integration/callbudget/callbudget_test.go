// Package callbudget holds the decorated OpenStack provider to its call budgets, over real
// gophercloud against the simulated OpenStack.
package callbudget

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/nodes"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/instancecache"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// period is --node-monitor-period's default.
const period = 5 * time.Second

// shiftedClock is the real clock, put forward by advance. Where held is set before its first use, it
// stands still but for advance, so that a slow machine sees no more rounds than a fast one.
type shiftedClock struct {
	clock.RealClock
	held  time.Time
	shift atomic.Int64
}

func (c *shiftedClock) Now() time.Time {
	now := c.held
	if now.IsZero() {
		now = time.Now()
	}
	return now.Add(time.Duration(c.shift.Load()))
}
func (c *shiftedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
func (c *shiftedClock) advance(d time.Duration)         { c.shift.Add(int64(d)) }

// fleet is the real OpenStack provider, decorated, over real gophercloud against the
// simulated OpenStack, with a Node for each server.
type fleet struct {
	t        *testing.T
	sim      *ossim.Sim
	provider *decorate.Provider
	clock    *shiftedClock
	servers  []ossim.Server
	refs     []cloud.InstanceRef
	all      *instancecache.Peers // refs
}

func newFleet(t *testing.T, n int) *fleet {
	t.Helper()
	return newFleetOf(t, n, ossim.ForTest(t), "", 2*time.Minute)
}

// newFleetOf is newFleet with a cloud of its own, more lines of cloud.conf, and how long a read
// may take.
func newFleetOf(t *testing.T, n int, sim *ossim.Sim, more string, reads time.Duration) *fleet {
	t.Helper()
	f := &fleet{t: t, sim: sim, clock: &shiftedClock{}}
	f.all = &instancecache.Peers{List: func() []cloud.InstanceRef { return f.refs }}
	f.servers = sim.SeedServers(ossim.Seed{Count: n, NamePrefix: "node-", Zones: []string{"az1", "az2", "az3"}})
	for _, s := range f.servers {
		f.refs = append(f.refs, cloud.InstanceRef{NodeName: s.Name})
	}
	conf := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(conf, []byte(sim.CloudConf()+more), 0o600); err != nil {
		t.Fatal(err)
	}
	o := caller.Options{
		Clock: f.clock,
		Reads: caller.Policy{BackoffBase: time.Millisecond, Deadline: reads},
	}
	traffic, err := caller.NewTraffic("openstack", o)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := openstack.New(t.Context(), conf, cloud.Options{Traffic: traffic})
	if err != nil {
		t.Fatal(err)
	}
	f.provider, err = decorate.New(p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.provider.Close)
	if err := f.provider.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	sim.ResetRequests()
	return f
}

// initialize asks for each node's metadata, one after the other, as the framework's node
// controller does, and sets its provider ID.
func (f *fleet) initialize() {
	f.t.Helper()
	for k, ref := range f.refs {
		instance, err := f.provider.Nodes.Lookup(f.t.Context(), ref, instancecache.MetadataMaxAge, f.all)
		if err != nil {
			f.t.Fatal(err)
		}
		if want := "openstack:///" + f.servers[k].ID; instance.ProviderID != want || instance.Zone != f.servers[k].Zone || len(instance.Addresses) == 0 {
			f.t.Fatalf("%s: got %+v, want provider ID %s in %s", ref.NodeName, instance, want, f.servers[k].Zone)
		}
		f.refs[k].ProviderID = instance.ProviderID
	}
}

// cycle asks whether each of the first n nodes exists and is shut down, as a cycle of the
// framework's node lifecycle controller does, and returns the answers. An error counts in errs.
func (f *fleet) cycle(n int) (gone, shutdown map[string]bool, errs int) {
	f.t.Helper()
	f.clock.advance(period)
	f.sim.ResetRequests()
	gone, shutdown = map[string]bool{}, map[string]bool{}
	notReady := &instancecache.Peers{List: func() []cloud.InstanceRef { return f.refs[:n] }}
	for _, ref := range f.refs[:n] {
		ask := func() (*cloud.Instance, error) {
			return f.provider.Nodes.Lookup(f.t.Context(), ref, nodes.LifecycleMaxAge(period), notReady)
		}
		_, err := ask() // exists?
		if cloud.IsNotFound(err) {
			gone[ref.NodeName] = true
			continue
		}
		if err != nil {
			errs++
			continue
		}
		instance, err := ask() // shut down?
		if err != nil {
			errs++
		} else if instance.Shutdown {
			shutdown[ref.NodeName] = true
		}
	}
	return gone, shutdown, errs
}

// calls is how many requests there were since the last reset, tokens aside.
func (f *fleet) calls() int { return f.sim.Count("", "") - f.sim.Count("identity", "") }

// wantCalls wants at most so many calls.
func (f *fleet) wantCalls(what string, most int) {
	f.t.Helper()
	got := f.calls()
	f.t.Logf("%s: %d cloud calls", what, got)
	if got == 0 || got > most {
		f.t.Errorf("%s cost %d cloud calls, want 1 to %d: %v", what, got, most, f.sim.Requests())
	}
}

// OCCM makes 1,500 calls to initialize 500 nodes, and 2 for each NotReady node every 5 s.
func TestInstanceCallBudgets(t *testing.T) {
	f := newFleet(t, 500)
	f.clock.held = time.Now()
	f.initialize()
	f.wantCalls("initializing 500 nodes", 4)

	f.clock.advance(5 * time.Minute)
	f.sim.ResetRequests()
	for _, ref := range f.refs {
		if _, err := f.provider.Nodes.Lookup(t.Context(), ref, instancecache.MetadataMaxAge, f.all); err != nil {
			t.Fatal(err)
		}
	}
	f.wantCalls("the status of 500 nodes", 4)

	f.sim.StopServer(f.servers[0].ID)
	for _, n := range []int{1, 2, 3, 49, 51, 500} {
		gone, shutdown, errs := f.cycle(n)
		if len(gone) != 0 || len(shutdown) != 1 || !shutdown["node-0"] || errs != 0 {
			t.Errorf("%d NotReady nodes: gone %v, shut down %v, %d errors", n, gone, shutdown, errs)
		}
		f.wantCalls(fmt.Sprintf("a cycle of %d NotReady nodes", n), 3)
	}

	// Each node that is gone is worth a direct read: its Node will be deleted.
	f.sim.DeleteServer(f.servers[1].ID)
	f.sim.DeleteServer(f.servers[2].ID)
	gone, shutdown, errs := f.cycle(500)
	if len(gone) != 2 || !gone["node-1"] || !gone["node-2"] || len(shutdown) != 1 || errs != 0 {
		t.Errorf("gone %v, shut down %v, %d errors", gone, shutdown, errs)
	}
	f.wantCalls("a cycle with two servers gone", 3+2)
}

// Nodes are not ready while they are initialized, and where the API server is slow, 500 take 75 s: the node
// lifecycle controller asks about all of them 16 times.
func TestSlowStartBudget(t *testing.T) {
	f := newFleet(t, 500)
	f.clock.held = time.Now()
	rounds := nodes.NewRounds(period, f.clock)
	left := &instancecache.Peers{List: func() (refs []cloud.InstanceRef) {
		for _, ref := range f.refs {
			if ref.ProviderID == "" {
				refs = append(refs, ref)
			}
		}
		return refs
	}}
	ask := func(ref cloud.InstanceRef, maxAge time.Duration, others *instancecache.Peers) *cloud.Instance {
		instance, err := f.provider.Nodes.Lookup(t.Context(), ref, maxAge, others)
		if err != nil {
			t.Fatal(err)
		}
		return instance
	}
	for round := range 16 {
		for k := 33 * round; k < min(33*(round+1), len(f.refs)); k++ {
			f.refs[k].ProviderID = ask(f.refs[k], instancecache.MetadataMaxAge, left).ProviderID
		}
		for _, ref := range f.refs {
			ask(ref, rounds.First(ref), f.all)
			ask(ref, rounds.Further(), f.all)
		}
		f.clock.advance(period)
	}
	f.wantCalls("75 s of starting 500 nodes", 12)
}

// Whatever the cloud answers instead of the truth, no node is called gone or shut down.
func TestNoNodeIsLostToACloudThatFails(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault ossim.Fault
		errs  bool // every question must fail
	}{
		{"401", ossim.Fault{Status: 401}, true},
		{"403", ossim.Fault{Status: 403}, true},
		{"404 of the endpoint", ossim.Fault{Status: 404, Body: "<html>404 page not found</html>"}, true},
		{"429", ossim.Fault{Status: 429}, true},
		{"500", ossim.Fault{Status: 500}, true},
		{"reset", ossim.Fault{Reset: true}, true},
		{"hang", ossim.Fault{Hang: true}, true},
		{"truncated", ossim.Fault{Truncate: true}, true},
		{"empty list", ossim.Fault{Path: "/servers/detail", EmptyList: true}, false},
		{"short list", ossim.Fault{Path: "/servers/detail", ShortList: true}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			reads := 2 * time.Minute
			if test.fault.Hang {
				reads = 5 * time.Second
			}
			f := newFleetOf(t, 10, ossim.ForTest(t), "", reads)
			f.initialize()
			test.fault.Service, test.fault.Method = "compute", "GET"
			remove := f.sim.AddFault(test.fault)
			gone, shutdown, errs := f.cycle(10)
			if len(gone)+len(shutdown) != 0 || test.errs != (errs == 10) || !test.errs && errs != 0 {
				t.Errorf("gone %v, shut down %v, %d errors", gone, shutdown, errs)
			}
			f.wantCalls("a cycle while the cloud fails", 40)
			remove()
			gone, shutdown, errs = f.cycle(10)
			if len(gone)+len(shutdown)+errs != 0 {
				t.Errorf("after the fault: gone %v, shut down %v, %d errors", gone, shutdown, errs)
			}
		})
	}
}
