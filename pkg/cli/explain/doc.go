// Package explain says of one Service, Node or PersistentVolume what the controller manager would do for it now, in words and in
// calls, and what belongs to it in the cloud. The plan is made by the controllers' own code with a cloud in a dry run, so that it is
// what they would do; nothing is changed.
package explain
