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
//   - Each service is a type of its own (Keystone, Nova, Neutron, Octavia, Cinder, Barbican) around the Cloud
//     that they share; Sim is all of them. Its routes register handlers with net/http patterns relative
//     to the service's prefix: r.handle("GET /v2.0/ports/{id}", s.showPort). r.open is the same without a token.
//   - A handler is "func(c *call) (*reply, error)". It runs with the cloud's lock HELD: it may read and change
//     all state and must neither block nor take the lock. Its reply is encoded before the lock is
//     released, so it may point into the state. Errors are *apiError (errorf, notFound, …); the
//     service's errorBody gives them the shape that service uses.
//   - Functions whose comment says "lock held" want the same; exported methods take the lock themselves.
//   - Delayed state changes: s.after(delay, fn) runs fn with the lock held unless the simulator is
//     closed first. Other goroutines: s.spawn(func(ctx)). Close ends and waits for all of them, without
//     holding the lock.
//   - Faults, hooks, the request log and microversions are applied around every handler by serve.go.
//
// What the services need of each other is in ports.go and is given to them by Start.
package openstack
