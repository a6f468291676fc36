// Package schema is what Octavia takes for the attributes of its objects, and the shape in which it refuses.
//
// It has no state; which attributes an object has, and what they mean, is package loadbalancer's.
package schema
