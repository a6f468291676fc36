// Package script is what users do: Groups of scenarios as tables, each with the cloud that it wants, cloud.conf, Nodes,
// Services and the steps in which they change.
//
// It does nothing itself (package play does), and its groups must never differ between two processes: recordings hold
// only as long as the group is what was recorded.
package script
