// Package steps is what users do in scenarios of any cloud: the Services that they make, and how they change them.
//
// Does not: know a cloud, or play anything.
package steps
