// Package azure authenticates to Azure. There is one identity, and what says which one is the first
// of these that says anything: a token that the caller gives (a pod's service account), the
// configuration, the environment (AZURE_CLIENT_ID and its companions, as in Azure's SDKs), and
// without any of them the machine's system-assigned managed identity. What is chosen and does not work is
// an error; nothing after it is tried. Two identities in one place are an error as well, but for
// azure.json, whose readers have an order of their own.
//
// It speaks Azure's documented protocols itself: the instance metadata service ("How to use managed
// identities on an Azure VM to acquire an access token"), and Entra ID's client credentials grant with a
// secret, with an assertion signed by a certificate ("Microsoft identity platform application
// authentication certificate credentials"), or with another issuer's token ("Workload identity
// federation"). That is one request for a token, where the SDK makes three (it asks about the authority
// first), at no cost at a program's start. The SDK itself runs against the same simulator in this
// repository, so that both are held to one contract.
//
// Requests go to the one host that is meant: redirects are not followed, nothing is sent unencrypted but to
// the metadata service, and that not through a proxy. Files are read again for every new token, so that
// rotated secrets are taken over. Errors are one line that says what to do, without anything secret in it.
package azure
