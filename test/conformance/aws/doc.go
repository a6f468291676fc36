// Package aws is the world of the conformance suite for AWS: what arranges and observes the simulator past the provider. There
// is no other cloud of AWS' that it runs against. It runs once for each kind of load balancers that Services choose from.
package aws
