// Package wire speaks the API of classic Elastic Load Balancing, version 2012-06-01, for the state in package elb: it reads forms,
// and writes XML. It decides nothing that the state could.
package wire
