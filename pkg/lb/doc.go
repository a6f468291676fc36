// Package lb plans load balancers: it turns a Service and the Nodes into the
// cloud.LoadBalancerSpec that a cloud then realizes, and checks the Service's annotations
// against the vocabulary of the cloud. It is pure: it reads no cluster and calls no cloud,
// so that the service controller and the Service webhook come to the same answer.
package lb
