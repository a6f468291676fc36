// Package play does what the users of a group do: it makes the cloud that every group has, its Nodes with their instances and its
// Services, takes the steps, and reads what is there.
//
// The manager runs beside it, whichever it is; package record runs the existing one, the tests run ours.
package play
