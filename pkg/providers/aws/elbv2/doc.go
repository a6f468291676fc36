// Package elbv2 serves Services with network load balancers.
//
// It does: read what there is, with lists that all Services share; bring it in line with what plan decides; wait for new load
// balancers without a worker; delete all that was made for a Service, also what is left of a load balancer that is gone.
//
// It does not: decide (plan does), find subnets or change security groups (vpc does), touch what tags do not prove ours.
//
// Why what was read or made is remembered until a verification: an unchanged Service, and a Node that comes or goes, shall cost no
// reads. What is remembered is forgotten at each error, as an answer that was lost may have changed something.
package elbv2
