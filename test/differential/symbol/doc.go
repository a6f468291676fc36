// Package symbol puts names in the place of what differs between any two runs: identifiers and addresses.
//
// Does not: know a cloud, or choose the names.
package symbol
