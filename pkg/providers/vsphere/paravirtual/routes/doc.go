// Package routes keeps pod routes as objects of NSX in the Supervisor: RouteSets, each of one route, or StaticRoutes of a VPC.
//
// An object is named after the Node, with "-ipv6" behind it for IPv6, as the existing manager names it; where that name is taken by a
// route of the Node to another destination, a sum of the destination follows. Ours are those whose owner reference is to the guest
// cluster's object and whose label has the cluster's name: the existing manager's, too. A RouteSet of several routes is nobody's that
// made it here. No object is ever changed: the existing manager's rights are for making and deleting them.
//
// A route that NSX has not realized yet (condition Ready) is listed as partial, so that it is asked for again, and removed with its
// Node.
package routes
