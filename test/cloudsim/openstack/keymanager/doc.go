// Package keymanager is Barbican: secrets, their payloads, and containers of certificates. What is in a certificate is
// not looked at.
package keymanager
