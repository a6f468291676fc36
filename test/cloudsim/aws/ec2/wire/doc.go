// Package wire speaks EC2's query API, version 2016-11-15, for the state in package ec2: it reads forms, filters and pages, and
// writes XML. It decides nothing that the state could.
//
// Names of parameters, filters and elements are those that AWS' SDK has. An operation that is not in the table of operations is
// refused like one that EC2 does not have.
package wire
