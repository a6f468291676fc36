// Package play does what the users of a group do: it makes the vCenters that the group has and its Nodes with their machines, takes the
// steps, and reads what is there.
//
// The manager runs beside it, whichever it is; package record runs the existing one, the tests run ours.
package play
