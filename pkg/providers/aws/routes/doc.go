// Package routes keeps pod routes in a route table of a VPC: pkg/cloud's Routes, which lead to instances.
//
// It chooses no pod CIDRs, makes no tables, and never turns an instance's source/destination check on again, as others may rely
// on it by now.
//
// # Which routes are ours
//
// A route has no tags and no description, so nothing at AWS can say who made it; a table's own tags are too few (50) for records.
// As for the existing manager, it is where a route leads and from where: ours is a route of the cluster's table (which has the
// cluster's tag or is named in cloud.conf) from one of the cluster's pod CIDRs to an instance that has the cluster's tag, or to an
// instance that is gone. The existing manager takes the last step for all instances and all blackholes; here a route to an
// instance of somebody else's and to any gateway stays, also inside of the pod CIDRs, unless it is a blackhole from a Node's
// own CIDR. So two clusters whose pod CIDRs overlap must not share a table, as before.
package routes
