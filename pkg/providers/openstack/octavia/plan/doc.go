// Package plan decides what is done with the load balancers of OpenStack. It is pure: it asks no cloud,
// knows no context and remembers nothing.
//
// Resolve puts a Service's spec, its annotations, its class and cloud.conf together (Service); On makes of
// that what is wanted of one load balancer (Desired), whose provider and VIPs decide what it can do; Plan
// compares it with what was read (Observed) and returns the changes, one API call each, and what results.
// Beside that: names and tags (Names), whose a load balancer is (Names.Judge and the table there), who may
// share one and how he is reached (SharedExposure), and what the Service webhook refuses (Check), which is
// what Resolve and On refuse, in the same words.
//
// What it decides it returns with a reason that a user understands; who makes the calls adds none.
package plan
