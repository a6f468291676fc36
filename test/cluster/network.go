package cluster

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// The cloud's network. Machines have the first addresses of the tenant's subnet, load balancers the
// others, and floating addresses are another subnet; the router's address is the first of the tenant's.
var (
	addresses  = netip.MustParsePrefix("10.77.0.0/16")
	tenant     = netip.MustParsePrefix("10.77.0.0/18")
	floating   = netip.MustParsePrefix("10.77.128.0/18")
	gateway    = netip.MustParseAddr("10.77.0.1")
	podCIDR    = netip.MustParsePrefix("10.244.0.0/16")
	serviceIPs = netip.MustParsePrefix("10.96.0.0/16")
	apiIP      = netip.MustParseAddr("10.96.0.1") // of the Service kubernetes
)

const (
	bridge = "cloud"
	// vips is how many of the tenant's first addresses can be load balancers'.
	vips = 256
)

// makeNetwork makes the bridge, with the router's address.
func makeNetwork(ctx context.Context, e *environment) error {
	batch := fmt.Sprintf("link add %[1]s address 02:00:00:77:00:01 type bridge\nlink set %[1]s up\naddress add %[2]s/%[3]d dev %[1]s\n", bridge, gateway, tenant.Bits())
	if _, err := e.output(ctx, strings.NewReader(batch), "ip", "-batch", "-"); err != nil {
		return err
	}
	return e.run(ctx, "sysctl", "-qw", "net.ipv4.ip_forward=1")
}

// giveAddresses lets the simulated load balancers have the addresses that no machine has.
func giveAddresses(ctx context.Context, e *environment, machines []*Machine) error {
	var batch strings.Builder
	fmt.Fprintf(&batch, "route add local %s dev lo\n", floating)
	a := gateway.Next()
	for range vips {
		if !slices.ContainsFunc(machines, func(m *Machine) bool { return m.Address == a }) {
			fmt.Fprintf(&batch, "route add local %s dev lo\n", a)
		}
		a = a.Next()
	}
	_, err := e.output(ctx, strings.NewReader(batch.String()), "ip", "-batch", "-")
	return err
}

// router does what the simulated router was told: it has the routes of the API, and no others.
type router struct {
	env   *environment
	cloud *openstack.Sim
	stop  context.CancelFunc
	ended sync.WaitGroup
	has   map[string]bool
}

// startRouter starts a router, which ends with close, not with ctx.
func startRouter(ctx context.Context, e *environment, cloud *openstack.Sim) *router {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &router{env: e, cloud: cloud, stop: stop, has: map[string]bool{}}
	r.ended.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := r.follow(ctx); err != nil && ctx.Err() == nil {
					fmt.Fprintln(e.events, "router:", err)
				}
			}
		}
	})
	return r
}

// follow makes the kernel's routes those of the API.
func (r *router) follow(ctx context.Context) error {
	want := map[string]bool{}
	for _, route := range r.cloud.Snapshot().Routes {
		want[route.Name] = true
	}
	if maps.Equal(want, r.has) {
		return nil
	}
	for name := range want {
		if !r.has[name] { // "10.244.0.0/24 via 10.77.0.10"
			if err := r.env.run(ctx, "ip", append([]string{"route", "replace"}, strings.Fields(name)...)...); err != nil {
				return err
			}
			r.has[name] = true
		}
	}
	for name := range r.has {
		if !want[name] {
			if err := r.env.run(ctx, "ip", append([]string{"route", "delete"}, strings.Fields(name)...)...); err != nil {
				return err
			}
			delete(r.has, name)
		}
	}
	return nil
}

func (r *router) close() {
	r.stop()
	r.ended.Wait()
}
