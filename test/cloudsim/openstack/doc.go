// Package openstack is a simulated OpenStack at the wire: Keystone, Nova, Neutron,
// Octavia, Cinder, Barbican and a little Glance behind one port, for real gophercloud and the real
// openstack command to talk to. It answers as OpenStack Zed does.
//
// # Use
//
//	sim, err := openstack.Start(openstack.Options{})
//	defer sim.Close()
//	servers := sim.SeedServers(openstack.Seed{Count: 500, NamePrefix: "node-", Zones: []string{"az1", "az2"}})
//	conf := sim.CloudConf()
//
// # Addresses
//
// Every simulator owns one net 127.N.0.0/16 (see addresses.go). Ports of servers and VIPs get
// addresses of the tenant subnet 127.N.0.0/18, floating IPs of 127.N.128.0/18. They are real
// loopback addresses: a test can listen on a server's address, and what the simulator forwards arrives there.
// Where a network namespace plays the cloud, Options.Addresses takes their place.
//
// # How it is built
//
//   - router.go: each service has one method "func (s *Sim) <service>Routes(r *router)" that
//     registers its handlers with net/http patterns relative to the service's prefix:
//     r.handle("GET /v2.0/ports/{id}", s.showPort). r.open is the same without a token.
//   - A handler is "func(c *call) (*reply, error)". It runs with s.mu HELD: it may read and change
//     all state and must neither block nor take s.mu. Its reply is encoded before s.mu is
//     released, so it may point into the state. Errors are *apiError (errorf, notFound, …); the
//     service's errorBody gives them the shape that service uses.
//   - Functions whose comment says "mu held" want the same; exported methods of Sim take s.mu themselves.
//   - Delayed state changes: s.after(delay, fn) runs fn with s.mu held unless the simulator is
//     closed first. Other goroutines: s.spawn(func(ctx)). Close ends and waits for all of them, without
//     holding s.mu.
//   - Faults, hooks, the request log and microversions are applied around every handler by serve.go.
//
// Files network_*.go, octavia_*.go and forward_*.go hold Neutron, Octavia and the data plane, the
// others all else. What the two need of each other is in ports.go and snapshot.go.
package openstack
