// Package difference compares what two managers left of a scenario, and sorts the differences by the reasons that typed
// lists give: what ours does otherwise on purpose (Differences), at a takeover (AtTakeover), what OCCM does when it
// takes a cluster back (TakingBack), and where a real cloud is unlike the simulator (RealDifferences). What no list has is
// a defect of one of them.
package difference
