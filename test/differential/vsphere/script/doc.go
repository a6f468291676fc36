// Package script has the scenarios: the Nodes with the machines behind them, and what their users do, in groups that are played with one
// vsphere.conf and by one manager.
//
// Does not: play anything, or know what a manager makes of it.
package script
