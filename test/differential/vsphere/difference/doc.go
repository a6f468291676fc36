// Package difference says how two states differ, and which differences between what the existing manager leaves and what ours
// leaves are meant to be, with the reasons.
package difference
