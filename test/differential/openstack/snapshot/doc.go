// Package snapshot is what a cloud and the API hold of a scenario, in a normal form: identifiers and addresses are
// Symbols, what is empty or the cloud's default is left out, lists have an order. It reads a State from a cloud, and
// makes one there again.
//
// It knows neither the scenarios nor who has made what it reads.
package snapshot
