// Package elb is the state of a simulated classic Elastic Load Balancing: load balancers in a VPC with their listeners, policies,
// instances and what is said of their health, attributes and tags. Package wire speaks the API for it.
//
// Nothing is forwarded and nothing probed: instances that run are in service, unless a test says otherwise (SetHealth).
//
// What it returns is immutable, and nothing runs in the background, as with package ec2.
package elb
