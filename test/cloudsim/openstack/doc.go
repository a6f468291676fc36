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
// Every simulator owns one net 127.N.0.0/16 (see package core). Ports of servers and VIPs get
// addresses of the tenant subnet 127.N.0.0/18, floating IPs of 127.N.128.0/18. They are real
// loopback addresses: a test can listen on a server's address, and what the simulator forwards arrives there.
// Where a network namespace plays the cloud, Options.Addresses takes their place.
//
// # How it is built
//
// Each service is a package: identity, compute, network, loadbalancer (whose data plane is cloudsim/forward), volume and
// keymanager. They share package core, and package dialect for what two of them say alike; they do not import each
// other. This package makes them, gives each what it needs of the others, and is all of them: Sim has the
// methods of the services with which tests look at the cloud and change it past the API.
package openstack
