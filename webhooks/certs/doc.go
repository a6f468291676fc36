// Package certs keeps the webhook server's serving certificate: read from a directory and
// read again when it changes, or, where the directory has none, issued by a CA of its own
// into that directory and renewed before it expires.
//
// Files in the directory: tls.crt and tls.key (the certificate chain and its key), ca.crt
// (what clients must trust; optional where the files are the user's) and, beside
// certificates of our own only, isthmus-ca.key. A certificate is ours only if it was issued
// by the CA of that key; all others are the user's and are never written.
package certs
