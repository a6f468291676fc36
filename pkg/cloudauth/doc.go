// Package cloudauth is what the authentication to every cloud shares: a type for secrets
// that cannot be printed, one-line excerpts of remote answers without secrets in them,
// fingerprints of files by which changed credentials are noticed, and bounded reads of files. The
// rules for requests are in its sub-package wire, and each cloud has its own on top of both.
//
// The kubelet's credential provider links this package, so it stays small: neither
// client-go nor pkg/cloud may be imported here or below.
package cloudauth
