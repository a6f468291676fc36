// Package ec2 is the state of a simulated EC2: what one account has in one region (Region), how tests furnish it, and what
// may be done with it. Package wire speaks EC2's query API for it.
//
// What a Region returns is immutable: a change replaces the object. So callers need neither locks nor copies.
//
// Nothing runs in the background. What comes later, such as the end of a transient state, is due at a time, and happens before
// the first call from then on.
//
// A region starts as a new account finds it: three availability zones, and a default VPC with a subnet in each, an internet
// gateway, the main route table and the default security group.
package ec2
