// Package openstack is the OpenStack provider: servers behind Nodes (Nova and Neutron),
// load balancers (Octavia), pod routes (Neutron routers) and volumes (Cinder).
//
// It reads the same cloud.conf, and makes and recognizes the same names, tags, provider
// IDs and annotations as openstack-cloud-controller-manager, so that either can take over
// a running cluster from the other.
//
// Files: cloud.go composes the provider, config.go is cloud.conf, api.go reaches the
// services, errors.go maps their errors; instances.go, loadbalancers.go, routes.go and
// volumes.go each fulfill one interface of pkg/cloud.
package openstack

//go:generate go run ../../../hack/gen-cloudconf ../../../docs/reference/cloud-conf-openstack.md
