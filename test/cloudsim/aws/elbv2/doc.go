// Package elbv2 is the state of a simulated Elastic Load Balancing v2, as far as Network Load Balancers go: load balancers, target
// groups, listeners, targets and what is said of their health, attributes and tags. Package wire speaks the API for it.
//
// Nothing is probed: targets become healthy after a while, unless a test says otherwise (SetHealth). Forwards says where traffic goes,
// for who carries it.
//
// What it returns is immutable, and nothing runs in the background, as with package ec2.
package elbv2
