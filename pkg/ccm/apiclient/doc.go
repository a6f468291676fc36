// Package apiclient makes the configuration with which all clients of the API server are made, which a dry run has
// store nothing; and what a provider gets of the cluster.
package apiclient
