// Package snapshot is what the API holds of a scenario's Nodes, in a normal form: what has no order is sorted, so that two states are
// compared by what they are.
//
// It knows neither the scenarios nor who has made what it reads.
package snapshot
