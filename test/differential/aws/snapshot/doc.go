// Package snapshot is what a cloud and the API hold of a scenario, in a normal form: what is made up at every run has a symbol,
// what is AWS' default is left out, and what has no order is a map, so that two states are compared by what they are.
//
// It knows neither the scenarios nor who has made what it reads.
package snapshot
