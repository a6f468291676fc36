// Package play does what the users of a group do: it makes the cloud that the group wants, its Nodes and Services, takes
// the steps, or puts a recorded state in place. It counts the calls that changed the cloud.
//
// The manager runs beside it, whichever it is; package record runs OCCM, the tests run ours.
package play
