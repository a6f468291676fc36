// Package cloudauth is what the authentication to every cloud shares: a type for secrets
// that cannot be printed, one-line excerpts of remote answers without secrets in them, and
// fingerprints of files by which changed credentials are noticed. Each cloud has its own
// sub-package on top of it.
//
// The kubelet's credential provider links this package, so it stays small: neither
// client-go nor pkg/cloud may be imported here or below.
package cloudauth
