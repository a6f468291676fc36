// Package service is the admission webhook that tells who writes a Service of type
// LoadBalancer at once what its load balancer could not be: values and combinations that the
// cloud refuses are rejected, and misspelled annotations answered with a warning. Without
// it, events on the Service say the same, in the same words, after it was saved.
//
// It never calls the cloud, and never keeps a Service as it is from being edited: what was
// wrong before is only warned about.
package service
