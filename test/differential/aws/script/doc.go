// Package script has the scenarios: the Nodes with the instances behind them, the Services, and what their users do, in groups
// that are played with one cloud.conf and by one manager.
//
// Does not: play anything, or know what a manager makes of it.
package script
