// Package elb is the state of a simulated classic Elastic Load Balancing: load balancers in a VPC with their listeners, policies,
// instances and what is said of their health, attributes and tags. Package wire speaks the API for it.
//
// Nothing is probed: instances that run are in service, unless a test says otherwise (SetHealth). Forwards says where traffic goes,
// for who carries it.
//
// What it returns is immutable, and nothing runs in the background, as with package ec2.
package elb
