// Package vpc is what load balancers need of the network: subnets, security groups of their own, and rules in the security
// groups of Nodes.
//
// It does: find subnets as the existing manager does, by tags and routes, with one read that all Services share; keep a load
// balancer's own security group, with rules as a set; keep the rules by which Nodes let load balancers in, for all Services
// together (pkg/joint), in the existing manager's formats.
//
// It does not: know load balancers or annotations; touch a group that is not provably the cluster's, or a rule that is not
// provably a Service's.
//
// Why marks of our own decide nothing here but what Made tells, which is what is left over: a group has the cluster's tag and a name made of the Service's UID; a rule names the load balancer's
// group or has the load balancer's name in its description. That is what the existing manager goes by, so either can take over
// from the other, and a crash leaves nothing that is not found again.
package vpc
