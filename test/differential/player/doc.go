// Package player does what the users of a group do with Services, in any cloud: it makes them, takes the steps, deletes them.
//
// The manager runs beside it, whichever it is. What of a group is its cloud's and its Nodes' a Cloud does.
package player
