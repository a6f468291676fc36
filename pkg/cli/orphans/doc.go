// Package orphans is the command that tells what a cluster has left in its cloud: objects that carry the cluster's own mark, and
// whose Service the API server does not know. It deletes them, where it is asked to, one by one.
//
// It takes no name, and no tag that clusters may share, for a mark: another cluster's objects are never among them. It deletes
// nothing whose Service the API server may only have forgotten (history).
package orphans
