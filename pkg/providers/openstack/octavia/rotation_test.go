package octavia

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/cinder"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/nova"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/router"
)

// Whatever is in the middle of its steps when credentials are rotated goes on as if nothing
// had happened: load balancers that are made and deleted, routes, servers, volumes.
func TestComplaint2284ReconcilesInFlightSurvive(t *testing.T) {
	x := newLBTest(t, 4, "")
	volume := x.sim.AddVolume("v", "az1")
	file := filepath.Join(t.TempDir(), "cloud.conf")
	current := x.sim.AddApplicationCredential("0")
	write := func() {
		if err := os.WriteFile(file, []byte(x.sim.CloudConfWith(current)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Parse(file, data)
	if err != nil {
		t.Fatal(err)
	}
	s, err := auth.New(cfg.Global, auth.Options{ConfigFile: file, UserAgent: "test", RequestTimeout: apitest.RequestTimeout})
	if err != nil {
		t.Fatal(err)
	}
	c := api.New(s)
	instances := nova.New(c, cfg, false)
	lbs := New(c, cfg, instances.Exists)
	lbs.waits = x.lbs.waits
	p := &cloud.Provider{LoadBalancers: lbs, Instances: instances, Volumes: cinder.New(c, false), Routes: router.New(c, cfg.Route.RouterID)}
	ctx := testContext(t)
	var stop atomic.Bool
	var rounds []*atomic.Int64 // of each worker
	var wg sync.WaitGroup
	work := func(reconcile func() error) {
		done := &atomic.Int64{}
		rounds = append(rounds, done)
		wg.Go(func() {
			for !stop.Load() {
				if err := reconcile(); err != nil {
					t.Error(err)
					stop.Store(true)
				}
				done.Add(1)
			}
		})
	}
	// A request is sent once more with new credentials: on a slow machine, too, no second rotation
	// comes upon it, if each worker has ended what it was at and begun something.
	each := func() {
		var ended []int64
		for _, done := range rounds {
			ended = append(ended, done.Load())
		}
		for i, done := range rounds {
			for done.Load() == ended[i] && !stop.Load() {
				<-time.After(time.Millisecond)
			}
		}
	}
	for n := range 3 {
		spec := x.service(fmt.Sprint("web-", n), nil)
		work(func() error {
			if _, err := p.LoadBalancers.Ensure(ctx, spec); err != nil {
				return err
			}
			return p.LoadBalancers.Delete(ctx, spec)
		})
	}
	for n, m := range x.all[:2] {
		route := []cloud.Route{{Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(n), 0}), 24), NextHop: m.Addresses[0], Node: m.Node}}
		work(func() error {
			if err := p.Routes.Apply(ctx, testCluster, route, nil)[0]; err != nil {
				return err
			}
			return p.Routes.Apply(ctx, testCluster, nil, route)[0]
		})
	}
	work(func() error { _, err := p.Instances.Get(ctx, x.all[0].Node); return err })
	work(func() error { return p.Volumes.Find(ctx, []cloud.VolumeRef{{ID: volume.ID}})[0].Err })
	for n := range 6 {
		each()
		old := current
		current = x.sim.AddApplicationCredential(fmt.Sprint(n + 1))
		if n%2 == 0 {
			write()
			x.sim.DeleteApplicationCredential(old.ID)
		} else {
			x.sim.DeleteApplicationCredential(old.ID)
			write()
		}
	}
	each()
	stop.Store(true)
	wg.Wait()
	if got := x.sim.Snapshot(); len(got.LoadBalancers) != 0 || len(x.sim.RouterRoutes(x.sim.Defaults().RouterID)) != 0 {
		t.Errorf("left over: %d load balancers, routes %v", len(got.LoadBalancers), x.sim.RouterRoutes(x.sim.Defaults().RouterID))
	}
}
