// Package elb serves Services by classic load balancers: names, tags, listeners, policies and health checks as the existing
// manager makes them, so that either takes over from the other.
//
// It does: read all load balancers at once for all Services; decide by package plan; make the calls; keep the load balancer's own
// security group, and its rules in the groups of Nodes, by package vpc.
//
// It does not: decide which Services get a classic load balancer; touch one that is not provably the Service's, by its tags; wait
// for what is created.
package elb
