// Package cluster has the end-to-end tests with a whole cluster (test/cluster) and what ships: the image,
// the chart and the credential provider's package. `make e2e-cluster` runs them, in namespaces of
// their own.
package cluster
