// Package plan decides about classic load balancers: what a Service wants (Resolve), what it cannot have (Check), and what must
// change for a load balancer to be so (Diff). All of it is pure.
//
// It does not call AWS, nor choose subnets and security groups: it is given those that were found.
package plan
