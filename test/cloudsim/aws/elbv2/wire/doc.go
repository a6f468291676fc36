// Package wire speaks the API of Elastic Load Balancing, version 2015-12-01, for the state in package elbv2: it reads forms, and
// writes XML. It decides nothing that the state could.
package wire
