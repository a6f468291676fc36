// Package service is the controller service-lb-controller: it gives Services of type
// LoadBalancer their load balancers. It replaces the framework's controller of that name and
// keeps what users see of it: finalizer, events, status, membership of Nodes and metrics.
//
// It works on states, not on events. For each Service it remembers what was done last, as a
// fingerprint of the plan that pkg/lb makes; an event, a timer or a change of Nodes merely
// makes a worker compare that with the plan of now. What is the same costs no cloud call,
// a difference in members costs one UpdateMembers, any other an Ensure. After a period
// each load balancer is ensured again with everything read afresh, which repairs drift.
package service
