// Package routes keeps a route in the cloud for each pod CIDR of each Node. It takes the
// place of the framework's route controller, under the same name, with the same events and
// conditions. What differs:
//
//   - All changes of a pass are one set, of at most changeAtOnce new routes and as many old
//     ones; where a Node's hop changes, the old route goes when the new one is there. Nodes
//     that come, go or change begin a pass at once.
//   - A change that failed is tried again in the next pass, whatever made that begin; what somebody
//     has to mend in the cloud, a quota or a broken router, a few minutes later.
//   - A pass that changes nothing logs nothing.
//   - Routes are deleted only when they are known to be the cluster's, see plan, after a live
//     read of the Nodes, and not many at once, see Guard.
package routes
