// Package compare has what differentials of all clouds compare with: how two states differ, and which of that is meant to be.
//
// Does not: know a cloud, or what is meant to be there (test/differential/<cloud>/difference does).
package compare
