// Package record runs the binary of an existing manager on groups of any cloud, from scratch and on what ours has left, and makes recordings
// of it.
package record
