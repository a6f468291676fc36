// Package differential runs another cloud controller manager, as the binary that its project
// releases, so that what it does can be recorded and compared with what ours does.
//
// Does: starts it against an API server and a cloud, tells when it has nothing left to do,
// stops it.
//
// Does not: know any cloud (test/differential/<cloud> does), or hold any code of the other
// manager. What is recorded are results of running it.
package differential
