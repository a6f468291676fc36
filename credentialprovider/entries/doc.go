// Package entries makes the entries of the kubelet's CredentialProviderConfig out of what the credential provider
// is to serve, and the RBAC that they need. It writes no file.
package entries
