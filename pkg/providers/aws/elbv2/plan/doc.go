// Package plan decides what a network load balancer shall be and what has to change for it, without calling anybody.
//
// It does: read a Service's wish (Resolve), with all that is wrong with it; name what is made as the existing manager does; tell
// the changes between what is there and the wish (Diff), in the order in which they must be made.
//
// It does not: find subnets or instances, or know security groups beyond their IDs and the name of the load balancer's own.
//
// Why listeners are found by port and target groups by node port: names of target groups depend on the health check, and those
// of the existing manager may be of other times. Nothing is ever renamed.
package plan
