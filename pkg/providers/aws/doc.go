// Package aws is the AWS provider: instances behind Nodes, pod routes and volumes (all EC2), and load balancers (Elastic Load
// Balancing).
//
// It reads the same cloud.conf, and recognizes the same provider IDs and tags as the existing manager, so that either can take
// over a running cluster from the other.
//
// cloud.go composes the provider of its packages, loadbalancers.go gives each Service to its kind of load balancer, identity.go
// says which cluster it is, health.go looks after cloud.conf:
//
//	config      cloud.conf
//	providerid  the provider IDs of Nodes
//	tags        the tags by which objects are the cluster's
//	api         the services' clients, pages, errors, dry run
//	instances   instances and the addresses of Nodes: pkg/cloud's Instances
//	routes      pod routes in a route table: Routes
//	volumes     Volumes
//	annotations the vocabulary of Service annotations
//	elbv2       network load balancers; elbv2/plan decides about them
//	elb         classic load balancers; elb/plan decides about them
//	vpc         what load balancers need of the network: subnets, security groups, rules in those of Nodes
//
// Nothing below imports this package.
package aws
