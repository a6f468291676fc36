// Package api asks one vCenter: for all machines by one collection of their properties, for some by their UUIDs, for what is above
// them, and for the tags that say where things are. It reads alone; nothing here changes a vCenter.
//
// A property that the vCenter does not show of an object is left out, and an object that is gone meanwhile as well: one of them must
// not hide the others. Errors are *cloud.Error.
package api
