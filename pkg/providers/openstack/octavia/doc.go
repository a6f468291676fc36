// Package octavia is the load balancers of OpenStack: Octavia's, with Neutron's floating IPs and
// security groups.
//
// It fulfills pkg/cloud's LoadBalancers. reconcile.go has them, and each operation as a list of steps; each
// is a function of steps.go, locate.go, create.go, expose.go or release.go. What is decided without the
// cloud is in plan, what is said to Octavia in wire; so a step mostly reads, asks plan, and makes calls.
//
// It does not wait for long: what Octavia needs time for is left with KindRetryAfter, one list looks after
// all of it (look), and the Service's next operation goes on from there. It keeps nothing of
// importance in the process: an operation that is cut off at any point is taken up by the next one, which
// finds everything by names, tags and addresses in the cloud. What cache.go remembers only
// saves reads, and Octavia's updated_at proves it.
//
// It is no judge of who may use what: that is plan's table, by cloud.Judge.
package octavia
