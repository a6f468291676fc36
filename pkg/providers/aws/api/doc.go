// Package api reaches AWS' services: a client of the session's for the cluster's region, all pages of a list, every error in the
// kinds of pkg/cloud, and of which account an answer is. In a dry run nothing that changes anything is sent.
//
// Every request passes cloud.Options.Traffic, in a family of each service's reads and one of its changes, and is sent once: the
// SDK's own retries are off, as pkg/cloud/decorate tries again. It does not know what the answers mean, nor most of cloud.conf.
package api
