// Package paravirtual composes what is served of a guest cluster of a vSphere Supervisor, by objects in the Supervisor's API server:
// Nodes by VirtualMachines, load balancers by VirtualMachineServices, and where the configuration says so pod routes by RouteSets or
// StaticRoutes of NSX.
//
// Pod CIDRs are not taken from NSX (IPPools, IPAddressAllocations), and annotations of Services are not copied. It has been seen on
// a real kube-apiserver with the kinds of VM Operator and NSX, but on no Supervisor.
package paravirtual
