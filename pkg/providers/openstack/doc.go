// Package openstack is the OpenStack provider: servers behind Nodes (Nova and Neutron),
// load balancers (Octavia), pod routes (Neutron routers) and volumes (Cinder).
//
// It reads the same cloud.conf, and makes and recognizes the same names, tags, provider
// IDs and annotations as openstack-cloud-controller-manager, so that either can take over
// a running cluster from the other.
//
// cloud.go composes the provider of its packages, health.go says whether the cloud can be used
// and looks after cloud.conf:
//
//	config      cloud.conf
//	providerid  the provider IDs of Nodes
//	api         the services' client, paging, errors, dry run
//	neutron     ports, subnets, floating IPs
//	nova        servers and the addresses of Nodes: pkg/cloud's Instances
//	cinder      Volumes
//	router      Routes
//	octavia     LoadBalancers; octavia/plan what is decided about them, octavia/wire what Octavia is told
//
// Nothing below imports this package.
package openstack
